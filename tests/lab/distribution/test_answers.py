"""The signal of being right, apart from form, length and style; and advice within the tasks that there are."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.sample_size import MOST_ROLLOUTS
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.tools import run_eval


def played(parts: Mapping[str, tuple[float, float]], tasks: int = 50, each: int = 8) -> list[Rollout]:
    """Rollouts whose components hit by chance: name to (chance, weight)."""
    rng = random.Random(1)
    found = []
    for task in range(tasks):
        for _ in range(each):
            scores = {name: (float(rng.random() < chance), weight) for name, (chance, weight) in parts.items()}
            found.append(Rollout(str(task), sum(s * w for s, w in scores.values()), scores))
    return found


def blockers(found: Distribution) -> set[str]:
    return {f.code for f in found.findings if f.severity == "blocker"}


@pytest.mark.parametrize(
    "beside",
    [
        {"answer_format": (0.5, 0.2)},
        {"xml_format": (0.5, 0.2), "brevity_reward": (0.5, 0.3)},
        {"answer_format": (0.5, 1.0)},
        {"length_bonus": (0.5, 1.0)},
    ],
)
def test_a_model_that_solved_nothing_is_dead_whatever_its_form_earns(beside: Mapping[str, tuple[float, float]]) -> None:
    found = judge_rollouts(played({"correct": (0.0, 1.0), **beside}))

    assert found.status == "failed"
    assert "distribution-dead" in blockers(found)
    assert found.is_dead
    assert found.usable_groups.share == 0.0
    assert (found.usable_groups.form_only or 0.0) > 0.9
    assert found.pass_rate == 0.0
    assert found.difficulty["never"] == 50


def test_a_component_of_form_beside_a_learnable_answer_changes_no_share() -> None:
    beside = judge_rollouts(played({"correct": (0.4, 1.0), "answer_format": (0.9, 0.2)}))
    alone = judge_rollouts(played({"correct": (0.4, 1.0)}))

    assert beside.status == alone.status == "passed"
    assert beside.usable_groups.share == pytest.approx(alone.usable_groups.share, abs=0.05)
    assert beside.pass_rate == pytest.approx(alone.pass_rate, abs=0.1)


def test_where_no_component_is_known_to_judge_the_answer_all_of_the_reward_counts() -> None:
    found = judge_rollouts(played({"length": (0.5, 1.0), "format": (0.9, 0.5)}))
    assert found.answer is None
    assert (found.usable_groups.share or 0.0) > 0.9


def test_pass_at_k_has_an_interval_over_tasks_that_narrows_with_them() -> None:
    few, many = (judge_rollouts(played({"correct": (0.4, 1.0)}, tasks=n)) for n in (30, 300))

    for k, value in many.pass_at_k.items():
        assert many.pass_at_k_intervals[k].low <= value <= many.pass_at_k_intervals[k].high
    wide, narrow = few.pass_at_k_intervals[1], many.pass_at_k_intervals[1]
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert narrow.low < 0.4 < narrow.high
    assert set(many.as_json()["pass_at_k_intervals"]) == set(many.as_json()["pass_at_k"])


def test_advice_never_asks_for_more_tasks_than_there_are() -> None:
    small = judge_rollouts(played({"correct": (0.5, 1.0)}, tasks=5, each=8), available=5)
    fix = next(f.fix for f in small.findings if f.code == "distribution-too-small")
    assert "num_examples=5 " in fix
    assert "rollouts=80" in fix

    unclear = judge_rollouts(played({"correct": (0.04, 1.0)}, tasks=40, each=8), available=40)
    fixes = [f.fix for f in unclear.findings if f.code == "distribution-unclear"]
    assert fixes
    assert all("num_examples=40 and rollouts=" in fix or "Add tasks" in fix or "no sample" in fix for fix in fixes)


def test_where_rollouts_start_containers_the_smallest_size_that_can_pass_is_advised() -> None:
    rows = played({"correct": (0.5, 1.0)}, tasks=5, each=8)
    fixes = [
        next(f.fix for f in judge_rollouts(rows, slow=slow).findings if f.code == "distribution-too-small")
        for slow in (True, False)
    ]
    assert "num_examples=30 and rollouts=4" in fixes[0].replace(", ", " and ")
    assert "num_examples=50 and rollouts=8" in fixes[1].replace(", ", " and ")


def test_an_environment_of_few_tasks_is_decided_by_more_rollouts_of_all_of_them() -> None:
    rows = played({"correct": (0.5, 1.0)}, tasks=5, each=80)
    assert judge_rollouts(rows, available=5).status == "passed"
    assert judge_rollouts(rows).status == "inconclusive"  # five tasks of who knows how many
    solved = judge_rollouts(played({"correct": (1.0, 1.0)}, tasks=5, each=80), available=5)
    assert solved.status == "failed"


def test_the_most_rollouts_that_are_advised_can_be_asked_for() -> None:
    run_eval.Args.model_validate({"environment": "sums", "model": "m", "rollouts": MOST_ROLLOUTS})


@pytest.mark.parametrize("available", [16, 144])
def test_a_mean_is_shown_with_its_width_over_tasks_whether_or_not_these_are_all_there_are(available: int) -> None:
    rows = [
        Rollout(str(task), float(right), {"correct": (float(right), 1.0), "answer_format": (1.0, 0.1)})
        for task in range(16)
        for right in [task > 1 or attempt < 2 for attempt in range(8)]
    ]
    found = judge_rollouts(rows, available=available)

    over_tasks = found.pass_at_k_intervals[1]
    assert found.answer is not None
    assert (found.answer.mean.low, found.answer.mean.high) == pytest.approx((over_tasks.low, over_tasks.high), abs=0.01)
    assert found.mean_low is not None
    assert found.mean_low < (found.mean or 0) - 1.5 * (found.standard_error or 0)


@pytest.mark.parametrize(("available", "said"), [(16, True), (144, False)])
def test_a_verdict_on_all_tasks_says_that_its_bounds_are_for_exactly_these(available: int, said: bool) -> None:
    rows = [
        Rollout(str(task), float(bool(task % 2 or attempt)), {"correct": (float(bool(task % 2 or attempt)), 1.0)})
        for task in range(16)
        for attempt in range(8)
    ]
    unclear = [
        finding.message
        for finding in judge_rollouts(rows, available=available).findings
        if finding.code == "distribution-unclear" and finding.where == "mean of attainable"
    ]
    assert len(unclear) == 1
    assert ("for exactly these 16 tasks" in unclear[0]) is said
