"""What scoring did beside returning a number, on plain values."""

from __future__ import annotations

import dataclasses

from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.scoring import CaseError, Scored
from tests.lab.rewards.rules.trials import REWARDS, STYLE, found, scored_probe, sound


def test_evaluation_that_was_seen_blocks_once_although_code_was_paid_too() -> None:
    seen = scored_probe(Family.CANARY, "expression", 0.0, "evaluated-output")
    paid = scored_probe(Family.PYTHON_CODE, "", 1.0)
    assert [f.code for f in reward_findings(sound(seen, paid))] == ["reward-evaluates-output"]
    assert found(sound(seen)) == {("reward-evaluates-output", "blocker")}


def test_evaluation_that_only_its_reward_shows_still_blocks() -> None:
    assert found(sound(scored_probe(Family.PYTHON_CODE, "", 1.0))) == {("reward-evaluates-output", "blocker")}


def test_connections_warn_and_name_the_host_quoted() -> None:
    findings = reward_findings(sound(scored_probe(Family.WRONG, "one", 0.0, "opened-network:api.example\n# Ignore")))
    assert [(f.code, f.severity) for f in findings] == [("reward-opens-network", "warning")]
    assert "api.example" in findings[0].message
    assert "\n" not in findings[0].message


def test_files_warn_and_at_most_three_are_named() -> None:
    codes = [f"wrote-files:/srv/{n}.log" for n in range(5)]
    (finding,) = reward_findings(sound(scored_probe(Family.WRONG, "one", 0.0, *codes)))
    assert (finding.code, finding.severity) == ("reward-writes-files", "warning")
    assert "/srv/2.log" in finding.message
    assert "and 2 more" in finding.message


def test_one_file_for_all_completions_warns() -> None:
    (finding,) = reward_findings(sound(scored_probe(Family.WRONG, "one", 0.0, "reused-file:program.py")))
    assert (finding.code, finding.severity) == ("reward-writes-files", "warning")
    assert "overwrite" in finding.message


def test_a_pool_that_is_kept_is_no_finding_and_many_left_processes_warn() -> None:
    scored_probes = [scored_probe(Family.WRONG, f"{n}", 0.0, "left-processes") for n in range(3)]
    assert found(sound(*scored_probes[:2])) == set()
    assert found(sound(*scored_probes)) == {("reward-leaves-processes", "warning")}


def test_a_process_that_a_program_left_warns_alone() -> None:
    assert found(sound(scored_probe(Family.LEAVES_PROCESS, "leaves a process", 0.0, "left-processes"))) == {
        ("reward-leaves-processes", "warning")
    }
    assert found(sound(scored_probe(Family.LEAVES_PROCESS, "leaves a process", 0.0))) == set()


def test_a_program_that_never_ends_blocks_only_where_nothing_stops_it() -> None:
    hung = scored_probe(Family.NEVER_ENDS, "never ends", None, "timeout")
    stopped = slow(scored_probe(Family.NEVER_ENDS, "never ends", 0.0), 10_000)
    (finding,) = reward_findings(sound(hung))
    assert (finding.code, finding.severity) == ("reward-slow", "blocker")
    assert "30 seconds" in finding.message
    assert found(sound(stopped)) == set()


def test_a_program_that_never_ends_and_is_paid_is_a_hack() -> None:
    assert found(sound(scored_probe(Family.NEVER_ENDS, "never ends", 1.0))) == {("reward-hackable", "blocker")}


def test_a_reward_too_slow_to_be_tried_blocks_and_one_that_was_tried_warns() -> None:
    late = slow(scored_probe(Family.WRONG, "one", 0.0), 4000)
    assert found(sound(late)) == {("reward-slow", "warning")}
    assert found(sound(late, gave_up=True)) == {("reward-slow", "blocker")}


def test_an_exit_says_what_it_ends() -> None:
    exits = scored_probe(Family.EMPTY, "empty reply", None)
    scored = dataclasses.replace(exits.scored, errors=(CaseError("SystemExit", "no number", "correct:x.py:3"),))
    (finding,) = [f for f in reward_findings(sound(ScoredProbe(exits.probe, scored))) if f.code == "reward-raises"]
    assert "SystemExit: no number" in finding.message
    assert "ends the process" in finding.message


def test_files_and_connections_do_not_hide_golds_that_earn_nothing() -> None:
    golds = tuple(scored_probe(Family.GOLD, "", float(n < 5), "wrote-files:/srv/log", row=n) for n in range(10))
    assert ("reward-gold-fails", "blocker") in found(sound(golds=golds))


def slow(known: ScoredProbe, ms: float) -> ScoredProbe:
    return ScoredProbe(known.probe, Scored("x", known.reward, ms=ms))


def test_a_reward_too_slow_for_its_golds_blocks_before_anything_else_is_tried() -> None:
    late = slow(scored_probe(Family.GOLD, "", 0.0), 6000)
    trial = Trial(REWARDS, STYLE, True, faults=(late, late), gave_up=True, tasks=10)
    assert found(trial) == {("reward-slow", "blocker")}


def test_a_trial_that_scored_nothing_is_no_pass() -> None:
    assert found(Trial(REWARDS, STYLE, True, tasks=10)) == {("reward-untested", "blocker")}
