"""A find counts only above what a trivial policy deserves on tasks that the search never scored."""

from __future__ import annotations

import random

import pytest

from prime_lab_mcp.lab.base.statistics import binomial_tail
from prime_lab_mcp.lab.rewards.search.held_out import ConstantAnswers, judge_find, judge_without_golds

TASKS = 24


def constants(right: float, *, wrong: float = 0.0, deserved: float | None = None) -> ConstantAnswers:
    """Four constant answers, each right on this share of the tasks; elsewhere they earn `wrong`."""
    number = round(right * TASKS)
    shares = tuple((1.0,) * number + (wrong,) * (TASKS - number) for _ in range(4))
    equal = tuple((True,) * number + (False,) * (TASKS - number) for _ in range(4))
    return ConstantAnswers(shares, equal, right if deserved is None else deserved)


def test_a_completion_that_is_paid_everywhere_counts() -> None:
    verdict = judge_find([1.0] * TASKS, constants(1 / 4))
    assert (verdict.paid, verdict.tasks, verdict.counts) == (TASKS, TASKS, True)


def test_a_lucky_letter_does_not_count() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        shares = [float(chance.random() < 0.25) for _ in range(TASKS)]
        assert not judge_find(shares, constants(1 / 4)).counts


def test_the_majority_answer_is_deserved() -> None:
    assert not judge_find([1.0] * 20 + [0.0] * 4, constants(20 / 24)).counts


def test_a_constant_that_intervals_make_right_on_many_tasks_is_deserved() -> None:
    """Nothing equals the constant as a text, but one number lies in most intervals."""
    shares = tuple((1.0,) * 14 + (0.0,) * 10 for _ in range(4))
    equal = tuple((False,) * TASKS for _ in range(4))
    assert not judge_find([1.0] * 14 + [0.0] * 10, ConstantAnswers(shares, equal, 1 / 24)).counts


def test_where_any_answer_is_paid_nothing_excuses_a_constant() -> None:
    shares = ((1.0,) * TASKS,) * 4
    equal = ((False,) * TASKS,) * 4
    assert judge_find([1.0] * TASKS, ConstantAnswers(shares, equal, 1 / 24)).counts


@pytest.mark.parametrize(("pay", "counts"), [(0.2, False), (0.3, False), (0.5, True)])
def test_form_deserves_three_tenths_of_the_maximum(pay: float, counts: bool) -> None:
    assert judge_find([pay] * TASKS, constants(1 / 24)).counts is counts


def test_what_a_graded_reward_pays_a_wrong_answer_is_deserved() -> None:
    chance = random.Random(3)
    graded = tuple(tuple(chance.uniform(0.2, 0.8) for _ in range(TASKS)) for _ in range(8))
    baseline = ConstantAnswers(graded, ((False,) * TASKS,) * 8, 1 / 24)
    assert not judge_find([chance.uniform(0.2, 0.8) for _ in range(TASKS)], baseline).counts


def test_too_few_held_out_tasks_show_nothing() -> None:
    assert not judge_find([1.0] * 4, ConstantAnswers(((0.0,) * 4,), ((False,) * 4,), 0.25)).counts


def test_the_binomial_tail_is_exact() -> None:
    assert binomial_tail(0, 10, 0.3) == pytest.approx(1.0)
    assert binomial_tail(10, 10, 0.5) == pytest.approx(0.5**10)
    assert binomial_tail(5, 5, 0.0) == 0.0


def test_without_golds_only_one_text_that_earns_everything_nearly_everywhere_counts() -> None:
    assert judge_without_golds([1.0] * 23 + [0.0], constant=True).counts
    assert not judge_without_golds([1.0] * 20 + [0.0] * 4, constant=True).counts
    assert not judge_without_golds([0.9] * TASKS, constant=True).counts
    assert not judge_without_golds([1.0] * TASKS, constant=False).counts
