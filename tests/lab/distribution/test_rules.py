"""Single rows of the decision table: what each is found by and where it leads."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from prime_lab_mcp.lab.base.statistics import clustered_interval
from prime_lab_mcp.lab.distribution.floor import FrequentAnswer, frequent_answer, sampled_golds, trivial_floor
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.next_calls import next_calls
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.rollouts.rollout import Rollout

Part = Callable[[random.Random], float]


def coin(p: float) -> Part:
    return lambda rng: float(rng.random() < p)


def scored(correct: Part, form: Part, weight: float = 0.1, **more: object) -> list[Rollout]:
    rng = random.Random(1)
    found = []
    for task in range(50):
        for _ in range(8):
            c, f = correct(rng), form(rng)
            parts = {"correct": (c, 1.0), "answer_format": (f, weight)}
            found.append(Rollout(str(task), c + weight * f, parts, **more))  # type: ignore[arg-type]
    return found


def severities(found: Distribution) -> dict[str, str]:
    return {f.code: f.severity for f in found.findings}


def check(found: Distribution, name: str) -> bool | None:
    return next(c.passed for c in found.checks if c.name == name)


def test_a_format_score_of_zero_is_a_zero_and_no_missing_value() -> None:
    found = judge_rollouts(scored(coin(0.5), lambda _: 0.0))

    assert check(found, "format") is False
    assert severities(found)["distribution-format-low"] == "blocker"
    assert found.status == "failed"
    assert check(judge_rollouts(Rollout(str(t), float(n % 2)) for t in range(40) for n in range(8)), "format") is None


def test_a_form_that_is_only_measured_counts_and_a_penalty_is_no_form() -> None:
    rng = random.Random(1)
    plain = [(str(t), float(rng.random() < 0.5)) for t in range(50) for _ in range(8)]
    measured = judge_rollouts(Rollout(t, r, {"correct": (r, 1.0)}, {"format": 0.0}) for t, r in plain)
    penalty = judge_rollouts(Rollout(t, r, {"correct": (r, 1.0), "format_penalty": (0.0, -1.0)}) for t, r in plain)

    assert check(measured, "format") is False
    assert check(penalty, "format") is None


@pytest.mark.parametrize(("broken", "severity"), [(0.1, None), (0.4, "warning"), (0.6, "blocker")])
def test_unparsed_completions_are_judged_by_their_share_less_those_cut_off(broken: float, severity: str | None) -> None:
    rows = scored(coin(0.5), coin(1 - broken))

    assert severities(judge_rollouts(rows)).get("distribution-unparsed") == severity
    cut = [Rollout(r.task, r.reward, r.components, truncated=True) for r in rows]
    assert "distribution-unparsed" not in severities(judge_rollouts(cut))


def test_the_form_is_crossed_with_what_was_solved() -> None:
    form = judge_rollouts(scored(coin(0.5), coin(0.8))).form
    assert form is not None
    assert form.correct_solved + form.correct_unsolved + form.broken_solved + form.broken_unsolved == 400
    assert form.solved_if_correct == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize(("width", "severity"), [(0.19, "warning"), (0.5, None)])
def test_a_narrow_range_of_rewards_warns(width: float, severity: str | None) -> None:
    rng = random.Random(2)
    rows = [Rollout(str(t), 0.4 + width * (rng.random() < 0.5)) for t in range(50) for _ in range(8)]
    assert severities(judge_rollouts(rows)).get("distribution-narrow-range") == severity


def test_negative_rewards_and_scores_above_one_are_told() -> None:
    rng = random.Random(2)
    rows = [Rollout(str(t), rng.choice([-1.0, 1.0, 2.0])) for t in range(50) for _ in range(8)]
    assert severities(judge_rollouts(rows))["distribution-out-of-range"] == "warning"


def labelled(accuracy: float, labels: int = 2) -> list[Rollout]:
    rng = random.Random(3)
    found = []
    for task in range(100):
        record = {"task": {"data": {"answer": "ABCD"[task % labels]}}}
        for _ in range(8):
            found.append(Rollout(str(task), float(rng.random() < accuracy), record=record))
    return found


def test_the_floor_is_what_always_giving_the_most_frequent_answer_earns() -> None:
    guessing, able = labelled(0.5), labelled(0.8)
    at_floor = judge_rollouts(guessing, golds=sampled_golds(guessing))

    assert at_floor.as_json()["floor"] == {"policy": "always-the-most-frequent-answer", "reward": 0.5}
    assert severities(at_floor)["distribution-at-floor"] == "blocker"
    assert judge_rollouts(able, golds=sampled_golds(able)).status == "passed"


DRAWN = {"login": 11, "shipping": 11, "bug": 10, "feature": 7, "cancel": 6, "billing": 5}
"""How often each of six labels, which 18 of 108 tasks have, is the answer of 50 drawn tasks."""
EACH_OF_SIX = [label for label in DRAWN for _ in range(18)]


def drawn(mean: float) -> tuple[list[Rollout], dict[str, str]]:
    """Rollouts of the drawn tasks with about this mean reward, and their golds."""
    rng, labels = random.Random(5), [label for label, times in DRAWN.items() for _ in range(times)]
    rows = [Rollout(str(task), float(rng.random() < mean)) for task in range(len(labels)) for _ in range(8)]
    return rows, {str(task): label for task, label in enumerate(labels)}


def guessed(labels: list[str], answer: str) -> list[Rollout]:
    """Rollouts of a model that always gives one answer."""
    return [Rollout(str(task), float(label == answer)) for task, label in enumerate(labels) for _ in range(8)]


def test_balanced_answers_deserve_their_share_of_all_tasks_and_not_the_largest_share_of_the_drawn_ones() -> None:
    rows, golds = drawn(0.13)
    known = judge_rollouts(rows, golds=golds, frequent=frequent_answer(EACH_OF_SIX), available=108)
    alone = judge_rollouts(rows, golds=golds)
    for judged in (known, alone):
        assert judged.floor is not None
        assert judged.floor.reward == pytest.approx(1 / 6, abs=0.001)
        found = next(f for f in judged.findings if f.code == "distribution-at-floor")
        assert "always giving one answer earns: 0.167" in found.message
        assert "balance the answers" not in str(found.fix)
    assert (known.floor and known.floor.highest, alone.floor and alone.floor.highest) == (known.floor.reward, 0.22)


def test_a_model_above_a_guess_passes_where_all_tasks_are_known_and_needs_more_where_only_a_sample_is() -> None:
    rows, golds = drawn(0.26)
    known = judge_rollouts(rows, golds=golds, frequent=frequent_answer(EACH_OF_SIX), available=108)
    assert known.status == "passed"
    alone = judge_rollouts(rows, golds=golds)
    assert severities(alone)["distribution-unclear"] == "blocker"
    assert "0.220" in next(f for f in alone.findings if f.code == "distribution-unclear").message


@pytest.mark.parametrize("skewed", [0.34, 0.4, 0.55, 0.7, 0.9])
@pytest.mark.parametrize("known", [True, False])
def test_a_model_that_guesses_never_passes_whatever_is_drawn(skewed: float, known: bool) -> None:
    others = round(100 * (1 - skewed))
    whole = ["login"] * round(200 * skewed) + ["bug"] * others + ["billing"] * others
    frequent = frequent_answer(whole) if known else None
    for seed in range(12):
        rng = random.Random(seed)
        labels = rng.sample(whole, 50)
        golds = {str(task): label for task, label in enumerate(labels)}
        rows = [
            Rollout(task, float(label == ("login" if rng.random() < 0.97 else rng.choice(whole))))
            for task, label in golds.items()
            for _ in range(8)
        ]
        judged = judge_rollouts(rows, golds=golds, frequent=frequent, available=len(whole))
        assert severities(judged).keys() & {"distribution-at-floor", "distribution-unclear"}, (seed, judged.floor)
        assert judged.floor is not None
        assert judged.floor.highest >= labels.count("login") / 50
        if known:  # what exactly this guess earns on exactly these tasks
            assert judged.floor.reward >= labels.count("login") / 50


def test_the_advice_is_to_balance_answers_only_where_one_is_more_frequent() -> None:
    labels = ["login"] * 70 + ["bug"] * 30
    judged = judge_rollouts(
        guessed(labels, "login"), golds={str(n): label for n, label in enumerate(labels)}, frequent=None
    )
    found = next(f for f in judged.findings if f.code == "distribution-at-floor")
    assert "balance the answers" in str(found.fix)


def test_rows_without_a_reference_answer_have_no_most_frequent_one() -> None:
    assert trivial_floor(None, 1.0, {str(task): "" for task in range(50)}) is None
    assert frequent_answer(["", " "] * 30) is None
    assert frequent_answer(["Yes", "no", "yes "] * 10) == FrequentAnswer(("yes",), 2 / 3, 2)


def test_golds_that_are_all_different_are_no_labels_and_free_form_is_a_floor() -> None:
    found = judge_rollouts(scored(lambda _: 0.0, lambda _: 1.0), golds={str(n): f"answer {n}" for n in range(50)})
    assert found.as_json()["floor"] == {"policy": "right-form-wrong-answer", "reward": 0.0909}


def test_tasks_that_are_nearly_always_solved_are_left_out_of_a_second_share() -> None:
    rng = random.Random(4)
    rows = [Rollout(str(t), float(t % 2 or rng.random() < 0.5)) for t in range(60) for _ in range(8)]
    found = judge_rollouts(rows)
    assert (found.usable_without_easy or 0) > 0.95 > (found.usable_groups.share or 0)


def test_what_was_not_cut_off_has_a_mean_of_its_own() -> None:
    rows = [Rollout(str(t), float(n % 2), truncated=n % 2 == 0) for t in range(40) for n in range(8)]
    assert judge_rollouts(rows).mean_complete == 1.0


def test_a_mean_beyond_zero_and_one_keeps_its_interval() -> None:
    found, _ = clustered_interval([-1.0, 2.0, -1.0, 2.0], 16)
    assert found.low < 0.5 < found.high


@pytest.mark.parametrize(
    ("rows", "tool", "view"),
    [
        ([Rollout(str(t), 0.0) for t in range(50) for _ in range(8)], "read_eval", "zeros"),
        ([Rollout(str(t), float(t % 2)) for t in range(50) for _ in range(8)], "read_eval", "difficulty"),
        ([Rollout(str(t), None, error="503") for t in range(50)], "read_eval", "rollouts"),
        ([Rollout(str(t), float(n)) for t in range(5) for n in range(2)], "run_eval", None),
    ],
)
def test_every_verdict_leads_to_the_call_that_brings_further(rows: list[Rollout], tool: str, view: str | None) -> None:
    first = next_calls(judge_rollouts(rows), "gsm8k", "eval-1")[0]
    assert (first.tool, (first.arguments or {}).get("view")) == (tool, view)


def test_a_small_evaluation_without_any_reward_leads_to_its_zeros_and_to_no_larger_one() -> None:
    judged = judge_rollouts([Rollout(str(task), 0.0) for task in range(20) for _ in range(4)], available=120)

    assert judged.status == "inconclusive"
    found = [call.tool for call in next_calls(judged, "few", "eval-1", {"environment": "few", "num_examples": 20})]
    assert found == ["read_eval", "test_reward"]


def with_tools(called: Callable[[int], bool], reward: Callable[[int, bool], float]) -> list[Rollout]:
    rows = [(task, n, called(n)) for task in range(50) for n in range(8)]
    return [Rollout(str(t), reward(n + t, used), called_tool=used) for t, n, used in rows]


def test_solved_rollouts_without_a_tool_call_are_counted_and_warn() -> None:
    found = judge_rollouts(with_tools(lambda n: n % 2 == 0, lambda n, used: float(n % 3 == 0 and (used or n % 2 == 0))))

    assert severities(found)["paid-without-tool"] == "warning"
    assert "tools-never-called" not in severities(found)
    assert found.tool_use is not None
    shares = found.as_json()["tool_use"]
    assert shares["rollouts"] == 400
    assert shares["without_call"] == 200
    assert 0 < shares["solved_without_call"] < shares["solved"]


def test_an_evaluation_in_which_no_tool_was_called_says_what_kind_of_evidence_it_is() -> None:
    found = judge_rollouts(with_tools(lambda _: False, lambda n, _: float(n % 3 == 0)))

    assert severities(found)["tools-never-called"] == "warning"
    assert found.as_json()["tool_use"]["evidence"] == "a model that never called a tool"
    assert found.as_json()["tool_use"]["share_of_solved"] == 1.0


def test_tools_that_are_used_or_not_offered_are_no_finding() -> None:
    used = judge_rollouts(with_tools(lambda _: True, lambda n, _: float(n % 3 == 0)))
    assert not severities(used).keys() & {"paid-without-tool", "tools-never-called"}
    assert judge_rollouts(Rollout(str(t), float(n % 2)) for t in range(40) for n in range(8)).tool_use is None


@pytest.mark.parametrize(("best", "weight", "named"), [(0.5, 1.0, True), (1.0, 1.0, False), (0.5, 0.4, False)])
def test_a_component_of_most_of_the_weight_that_none_earned_in_full_is_named(
    best: float, weight: float, named: bool
) -> None:
    rng = random.Random(1)
    rows = [(str(t), best * (rng.random() < 0.5)) for t in range(50) for _ in range(8)]
    found = judge_rollouts(Rollout(t, r * weight + 0.6, {"fields": (r, weight), "short": (1.0, 0.6)}) for t, r in rows)
    messages = [f.message for f in found.findings if f.code == "component-never-exercised"]
    assert ["no rollout earned all of" in message for message in messages] == [True] * named


def test_a_component_that_no_rollout_earned_is_never_exercised_and_not_to_be_dropped() -> None:
    rng = random.Random(1)
    rows = [(str(t), float(rng.random() < 0.5)) for t in range(50) for _ in range(8)]
    found = judge_rollouts(
        Rollout(t, r + 0.2, {"correct": (r, 1.0), "queried": (0.0, 0.5), "kind": (1.0, 0.2)}) for t, r in rows
    )
    told = {f.code: f for f in found.findings}
    assert "queried" in told["component-never-exercised"].message
    assert "drop it" not in told["component-never-exercised"].fix.lower().replace("do not drop it", "")
    assert "queried" not in told["distribution-constant-component"].message


def test_an_undecided_evaluation_of_all_tasks_leads_to_more_rollouts_and_keeps_the_rest() -> None:
    rows = [Rollout(str(task), float(n % 2)) for task in range(12) for n in range(4)]
    again = {"environment": "few", "model": "m", "num_examples": 50, "rollouts": 4, "env_args": {"split": "train"}}
    judged = judge_rollouts(rows, available=12)
    assert judged.status == "inconclusive"
    following = next_calls(judged, "few", "eval-1", again)[-1]
    assert following.tool == "run_eval"
    assert following.arguments == {**again, "num_examples": 12, "rollouts": (following.arguments or {})["rollouts"]}
    assert (following.arguments or {})["rollouts"] > 4
    assert "there are no more tasks" in following.why


def test_the_cause_of_a_dead_evaluation_comes_first_nothing_untrue_is_said_and_each_advice_stands_once() -> None:
    nothing = judge_rollouts(scored(lambda _: 0.0, lambda _: 0.0))
    codes = [f.code for f in nothing.findings]
    assert codes[0] == "distribution-format-low"
    assert "distribution-at-floor" not in codes
    dead = next(f for f in nothing.findings if f.code == "distribution-dead")
    assert "what they earned" not in dead.message
    assert 'nothing for "answer_format" either' in dead.message
    advice = [str(f.fix) for f in nothing.findings if f.severity != "info" and not f.fix.startswith("As for ")]
    assert len(advice) == len(set(advice))
    form_alone = judge_rollouts(scored(lambda _: 0.0, lambda _: 1.0))
    dead = next(f for f in form_alone.findings if f.code == "distribution-dead")
    assert 'is for "answer_format". A run would learn that alone' in dead.message
