"""The incomplete beta function and what rests on it, against tables and simulation."""

from __future__ import annotations

import random

import pytest

from prime_lab_mcp.lab.base.statistics import f_tail, incomplete_beta, student_975
from prime_lab_mcp.lab.evals.views.compare import paired_difference
from prime_lab_mcp.lab.evals.views.difficulty import count_solved, fit_prior
from prime_lab_mcp.lab.evals.views.groups import separation


@pytest.mark.parametrize(("a", "b", "x"), [(1, 1, 0.3), (1, 5, 0.2), (5, 1, 0.9), (2, 2, 0.5)])
def test_closed_forms_of_the_incomplete_beta(a: float, b: float, x: float) -> None:
    exact = {(1, 1): x, (1, 5): 1 - (1 - x) ** 5, (5, 1): x**5, (2, 2): 0.5}[a, b]
    assert incomplete_beta(a, b, x) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(("freedom", "critical"), [((1, 10), 4.965), ((3, 20), 3.098), ((5, 100), 2.305)])
def test_f_has_its_tabled_critical_values(freedom: tuple[int, int], critical: float) -> None:
    assert f_tail(critical, *freedom) == pytest.approx(0.05, abs=2e-4)


@pytest.mark.parametrize(("freedom", "tabled"), [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (49, 2.0096)])
def test_t_has_its_tabled_quantiles(freedom: int, tabled: float) -> None:
    assert student_975(freedom) == pytest.approx(tabled, rel=4e-4)


def test_p_of_a_field_that_means_nothing_is_uniform_and_of_one_that_does_is_small() -> None:
    rng = random.Random(3)
    codes = [i % 3 for i in range(48)]
    found = [separation([rng.betavariate(0.5, 1) for _ in codes], codes) for _ in range(800)]
    false = sum(f is not None and f.p < 0.05 for f in found)
    assert 20 <= false <= 64  # 40 expected
    real = separation([rng.betavariate(1, 3) + 0.3 * (c == 2) for c in codes], codes)
    assert real is not None
    assert real.p < 0.01
    assert real.share > 0.15


def test_groups_without_any_spread_inside_are_as_unlikely_as_the_deal() -> None:
    few = separation([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1])
    many = separation([0.0] * 10 + [1.0] * 10, [0] * 10 + [1] * 10)
    assert few is not None
    assert many is not None
    assert few.p == pytest.approx(1 / 6)
    assert many.p < 1e-5


def test_paired_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = random.Random(11)
    covered = 0
    for _ in range(600):
        values = [0.1 + rng.choice((-0.5, 0.0, 0.0, 0.5)) for _ in range(30)]
        interval = paired_difference(values).interval
        covered += interval.low <= 0.1 <= interval.high
    assert 0.92 <= covered / 600 <= 0.98


def test_the_prior_finds_the_spread_of_tasks_and_shrinks_what_was_seen() -> None:
    rng = random.Random(5)
    solved = []
    for _ in range(800):
        p = rng.betavariate(0.6, 1.4)
        solved.append((sum(rng.random() < p for _ in range(8)), 8))
    prior = fit_prior(count_solved(solved))
    assert prior.fitted
    assert (prior.a, prior.b) == (pytest.approx(0.6, rel=0.3), pytest.approx(1.4, rel=0.3))
    assert 0.25 < prior.expected(2, 8) < prior.a / (prior.a + prior.b)
    assert prior.expected(8, 8) < 0.96
    assert prior.chance_below(1 / 16, 0, 4) < prior.chance_below(1 / 16, 0, 32)
    # The beta-binomial's own expectation, by drawing from the posterior of a task with 0 of 8.
    drawn = [rng.betavariate(prior.a, prior.b + 8) for _ in range(20_000)]
    mixed = sum(1 - p**16 - (1 - p) ** 16 for p in drawn) / len(drawn)
    assert prior.alive(16, 0, 8) == pytest.approx(mixed, abs=0.01)


def test_where_all_ended_alike_any_rate_was_as_likely_before() -> None:
    prior = fit_prior(count_solved([(0, 4)] * 10))
    assert not prior.fitted
    assert prior.chance_below(1 / 16, 0, 4) == pytest.approx(1 - (15 / 16) ** 5)
