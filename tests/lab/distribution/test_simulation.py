"""A small cut of benchmarks/statistics.py: intervals hold the truth as often as they say, verdicts fit it."""

from __future__ import annotations

import math

import pytest

from benchmarks.statistics import FAR, SIZES, Row, broken, main, simulate
from benchmarks.statistics_sets import HELD_OUT, TUNED

REPEATS = 12
DIVIDED, WIDE, HARD = "half always, half never", "Beta(.5, .5)", "Beta(.05, .5): hard"
ALIKE, FORMED, SMOOTH = "all tasks .05", "Beta(.5, .5), form .95", "continuous"


def row(name: str, tasks: int = 50, rollouts: int = 8) -> Row:
    return simulate(next(p for p in TUNED if p.name == name), tasks, rollouts, REPEATS)


def at_least(repeats: int, coverage: float = 0.95, chance: float = 1e-3) -> int:
    """How often an interval of this coverage holds in all but one of a thousand such tests."""
    total, held = 0.0, -1
    while total < chance:
        held += 1
        total += math.comb(repeats, held) * coverage**held * (1 - coverage) ** (repeats - held)
    return held


@pytest.mark.slow
@pytest.mark.rotate(share=4, group="large sizes")
@pytest.mark.parametrize("name", [WIDE, HARD, ALIKE, FORMED, SMOOTH])
def test_intervals_hold_the_truth_and_no_verdict_is_its_opposite(name: str) -> None:
    found = row(name)

    assert found.mean_held >= at_least(REPEATS)
    assert found.usable_held >= at_least(REPEATS)
    assert found.wrong == 0


def test_four_rollouts_a_task_tell_of_groups_of_sixteen_without_bias() -> None:
    assert abs(row(WIDE, 50, 4).bias) < 0.08


def test_what_is_always_or_never_solved_fails_in_every_sample() -> None:
    found = row(DIVIDED, 50, 4)
    assert (found.failed, found.passed) == (REPEATS, 0)


@pytest.mark.slow
@pytest.mark.rotate(share=4, group="large sizes")
def test_what_is_claimed_holds_on_populations_that_were_held_out() -> None:
    assert main(["--set", "held_out", "--repeats", "2"]) == 0


@pytest.mark.slow
def test_partial_credit_beside_tasks_without_any_reward_is_not_taken_for_signal_everywhere() -> None:
    found = row("continuous, half at zero", 64, 8)

    assert found.usable_held >= at_least(REPEATS)
    assert abs(found.bias) < 0.08


def test_a_claim_fails_where_its_lines_say_otherwise() -> None:
    good = Row(HELD_OUT[0], 64, 8, repeats=20, mean_held=20, usable_held=20, passed=20)
    poor = Row(HELD_OUT[1], 64, 8, repeats=20, mean_held=12, usable_held=20, failed=20)
    far = Row(HELD_OUT[2], 64, 4, 8 * FAR, repeats=20, mean_held=20, usable_held=0, passed=20)

    assert not any(lines for _, lines in broken([good, far]))
    assert [bool(lines) for _, lines in broken([good, poor, far])] == [True, False, True, False]
    assert any(group > FAR * rollouts for _, rollouts, group in SIZES["held_out"])
