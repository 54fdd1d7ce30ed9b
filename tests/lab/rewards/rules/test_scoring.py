"""Findings about how scoring behaves, on plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.observations import (
    ObservedSideEffects,
    OtherProcessScore,
    RepeatedScore,
    ScoredProbe,
    Trial,
)
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.side_effects import CONCURRENT_PROBES, concurrent_probes
from prime_lab_mcp.lab.worker.description import RewardInfo
from prime_lab_mcp.lab.worker.scoring import Component, Scored, SideEffects
from tests.lab.rewards.rules.trials import REWARDS, found, scored, scored_probe, sound

GOLD = scored_probe(Family.GOLD, "", 1.0)


def behaved(*manners: SideEffects, **more: object) -> Trial:
    return sound(side_effects=ObservedSideEffects((GOLD,) * len(manners), manners), **more)


def only(trial: Trial) -> Finding:
    (finding,) = reward_findings(trial)
    return finding


def part(score: float, name: str = "bonus", weight: float = 0.1) -> ScoredProbe:
    probe = Draft(Family.WRONG, "part", "part").probe("0/part", 0)
    return ScoredProbe(probe, Scored("x", 0.0, {name: Component(score, weight)}))


def test_scoring_that_behaves_has_no_finding() -> None:
    assert found(behaved(SideEffects("a", 1.0, (1.0,)), SideEffects("b", 1.0))) == set()


def test_another_reward_among_others_blocks_and_shows_both() -> None:
    finding = only(behaved(SideEffects("a", 1.0, (0.0,)), SideEffects("b", 1.0, (1.0,))))
    assert (finding.code, finding.severity) == ("reward-concurrency", "blocker")
    assert "1 alone, 0 among others" in finding.message
    assert finding.rows[0]["reward"] == 0.0


def test_a_reward_that_is_lost_among_others_blocks() -> None:
    assert found(behaved(SideEffects("a", 1.0, (None,)))) == {("reward-concurrency", "blocker")}


def test_scoring_at_once_that_breaks_the_process_blocks() -> None:
    trial = sound(side_effects=ObservedSideEffects((GOLD,), (), "the environment ended its own process"))
    assert found(trial) == {("reward-concurrency", "blocker")}


def test_what_varies_alone_is_no_matter_of_concurrency() -> None:
    assert found(behaved(SideEffects("a", 0.3, (0.6,)))) == set()  # alone it earned 1 before: not the others' doing
    repeat = RepeatedScore(GOLD.probe, scored(0.1), scored(0.7), scored(0.3))
    trial = behaved(SideEffects("a", 1.0, (0.0,)), repeats=(repeat,))
    assert found(trial) == {("reward-nondeterministic", "blocker")}


def test_holding_the_loop_above_100_ms_warns_with_the_completion() -> None:
    assert found(behaved(SideEffects("a", 1.0, (1.0,), (), 100.0))) == set()
    finding = only(behaved(SideEffects("a", 1.0, (1.0,), (), 101.0)))
    assert (finding.code, finding.severity) == ("reward-blocks-loop", "warning")
    assert finding.rows[0]["completion"] == '"gold of 0"'


def test_changed_inputs_warn_and_are_named() -> None:
    finding = only(behaved(SideEffects("a", 1.0, (1.0,), ("task.data.answer",))))
    assert (finding.code, finding.severity) == ("reward-mutates", "warning")
    assert "task.data.answer" in finding.message


def test_another_reward_in_another_process_blocks() -> None:
    finding = only(sound(other_process=(OtherProcessScore(GOLD, scored(0.0)), OtherProcessScore(GOLD, scored(1.0)))))
    assert (finding.code, finding.severity) == ("reward-nondeterministic", "blocker")
    assert "depends on the process" in finding.message
    assert found(sound(other_process=(OtherProcessScore(GOLD, scored(1.0)),))) == set()


def test_a_task_that_is_another_one_there_is_told_as_that() -> None:
    assert found(sound(other_process=(OtherProcessScore(GOLD, scored(0.0, "task-changed")),))) == {
        ("tasks-change", "blocker")
    }


def test_what_was_not_scored_there_says_nothing() -> None:
    abroad = tuple(OtherProcessScore(GOLD, scored(None, problem)) for problem in ("not-run", "timeout"))
    assert found(sound(other_process=abroad)) == set()


def test_a_small_penalty_is_information_and_a_large_one_a_warning() -> None:
    assert found(sound(part(-0.5))) == {("reward-range", "info")}
    assert found(sound(part(-3.0))) == {("reward-range", "warning")}
    assert found(sound(part(0.5))) == set()
    assert found(sound(part(-3.0, weight=0.0))) == set()


@pytest.mark.parametrize(("weight", "codes"), [(0.9, set()), (1.5, {("reward-range", "warning")})])
def test_a_maximum_below_half_of_the_weights_warns(weight: float, codes: set[tuple[str, str]]) -> None:
    parts = {"correct": Component(1.0, 1.0), "speed": Component(0.01, weight)}
    golds = tuple(ScoredProbe(GOLD.probe, Scored("x", 1.0, parts)) for _ in range(10))
    assert found(sound(golds=golds, rewards=(*REWARDS, RewardInfo("speed", weight, "reward", True)))) == codes


def test_tasks_and_kinds_are_mixed_and_slow_ones_only_watched() -> None:
    scored_probes = [
        scored_probe(kind, f"{kind} {n}", 1.0, row=row)
        for row in range(8)
        for kind in (Family.GOLD, Family.WRONG)
        for n in range(9)
    ]  # type: ignore[arg-type]
    slow = ScoredProbe(GOLD.probe, Scored("x", 1.0, ms=1600.0))
    hung = ScoredProbe(GOLD.probe, Scored("x", 1.0, ms=4000.0))
    mixed, long = concurrent_probes([*scored_probes, slow, hung, scored_probe(Family.GOLD, "bad", None)])
    assert len(mixed) == CONCURRENT_PROBES
    assert {s.probe.row for s in mixed} == set(range(8))
    assert [s.probe.kind for s in mixed].count("gold") == CONCURRENT_PROBES / 2
    assert mixed[0].probe.row != mixed[1].probe.row
    assert long == [slow]


def test_golds_of_many_tasks_leave_a_place_for_other_kinds() -> None:
    golds = [scored_probe(Family.GOLD, f"gold {n}", 1.0, row=n) for n in range(150)]
    others = [
        scored_probe(family, f"{family} {row}", 1.0, row=row)
        for row in range(40, 44)
        for family in (Family.WRONG, Family.AFTER_REASONING)
    ]
    chosen, _ = concurrent_probes([*golds, *others])
    assert len(chosen) == CONCURRENT_PROBES
    kinds = {s.probe.kind for s in chosen}
    assert {"gold", "wrong", "verbose"} <= kinds


def timed(probe_id: str, ms: float) -> Trial:
    probe = replace(Draft(Family.GOLD, "4", "").probe(probe_id, 0), id=probe_id)
    return sound(golds=(ScoredProbe(probe, Scored("x", 1.0, {"correct": Component(1.0, 1.0)}, ms=ms)),))


def test_the_time_of_a_whole_rollout_is_no_time_of_scoring() -> None:
    assert only(timed("0/gold", 1_500)).message.startswith("scoring took more than a second")
    assert found(timed("rollout/0", 1_500)) == set()
    long = only(timed("rollout/0", 8_000))
    assert (long.code, long.severity) == ("reward-slow", "warning")
    assert "tool server" in long.fix
    assert "regular expression" not in long.fix


def test_one_completion_of_many_that_is_hardly_slow_is_not_named() -> None:
    """A busy machine made one of 840 completions take 1.1 s, and the advice was to rewrite the parser."""
    many = [scored_probe(Family.GOLD, f"gold {n}", 1.0, row=n) for n in range(150)]
    slow = [replace(one, scored=replace(one.scored, ms=1_100.0)) for one in many[:2]]
    assert found(sound(golds=(*many[1:], slow[0]))) == set()
    assert only(sound(golds=(*many[2:], *slow))).code == "reward-slow"
    worse = replace(slow[0], scored=replace(slow[0].scored, ms=2_500.0))
    assert only(sound(golds=(*many[1:], worse))).code == "reward-slow"


def test_equal_completions_of_a_group_must_be_paid_equally() -> None:
    findings = reward_findings(sound(scored_probe(Family.GOLD, "", 1.0, "unequal-in-group:1.5 and 1")))
    assert [(f.code, f.severity) for f in findings] == [("reward-order-dependent", "blocker")]
    assert "1.5 and 1" in findings[0].message
