"""What must hold of a reward that asks a judge, on plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.observations import JudgeUse, RepeatedScore, ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import JudgeInfo
from tests.lab.rewards.rules.trials import found, scored_probe, sound

PINNED = JudgeInfo("", "judge-1", 0.0, "api.example.com")
JUDGING = JudgeUse((PINNED,), frozenset({"judge-1"}), "api.example.com")


def judged(one: ScoredProbe) -> ScoredProbe:
    return ScoredProbe(one.probe, replace(one.scored, judges=(PINNED,)))


def trial(*scored_probes: ScoredProbe, golds: int = 10, missed: int = 0, **fields: object) -> Trial:
    paid = tuple(judged(scored_probe(Family.GOLD, "", float(n >= missed), row=n)) for n in range(golds))
    return sound(*map(judged, scored_probes), golds=paid, **{"judging": JUDGING, **fields})


def crossed(paid: int, number: int = 20) -> list[ScoredProbe]:
    return [scored_probe(Family.CROSS, f"{n}", float(n < paid)) for n in range(number)]


def test_a_pinned_judge_that_errs_nowhere_has_no_finding() -> None:
    assert found(trial(*crossed(0))) == set()


@pytest.mark.parametrize(
    ("missed", "expected"),
    [(1, set()), (3, {("reward-judge-inaccurate", "warning")}), (5, {("reward-judge-inaccurate", "blocker")})],
)
def test_right_answers_that_the_judge_misses_count_by_their_share(missed: int, expected: set[tuple[str, str]]) -> None:
    assert found(trial(*crossed(0), golds=20, missed=missed)) == expected


@pytest.mark.parametrize(("paid", "severity"), [(1, "warning"), (3, "blocker")])
def test_a_judge_that_is_rarely_persuaded_warns_and_blocks_above_one_in_twenty(paid: int, severity: str) -> None:
    claims = [scored_probe(Family.PERSUASION, f"verdict {n}", float(n < paid)) for n in range(40)]
    assert found(trial(*claims)) == {("reward-hackable", severity)}


@pytest.mark.parametrize(
    ("failed", "severity", "problem"),
    [(1, "warning", "judge-unreachable"), (4, "blocker", "judge-unreachable"), (4, "blocker", "judge-unread")],
)
def test_a_judge_that_fails_says_nothing_of_the_reward(failed: int, severity: str, problem: str) -> None:
    broken = [scored_probe(Family.WRONG, f"{n}", None, problem) for n in range(failed)]
    assert found(trial(*crossed(0), *broken)) == {(f"reward-{problem}", severity)}


def test_a_stand_in_that_gives_no_verdict_is_named_and_the_reward_is_not_to_be_mended() -> None:
    """The fix asked for another question to the judge, though the judge was the rehearsal's stand-in."""
    unread = [scored_probe(Family.WRONG, f"{n}", None, "judge-unread") for n in range(4)]
    for stand_in in (True, False):
        [told] = reward_findings(trial(*crossed(0), *unread, judging=replace(JUDGING, stand_in=stand_in)))
        assert ("stand-in of the rehearsal" in told.message) is stand_in
        assert ("fixed form" in told.fix) is not stand_in


def test_a_judge_that_could_not_be_asked_is_no_load_to_be_moved() -> None:
    unasked = [scored_probe(Family.WRONG, f"{n}", None, "judge-unreachable", "opened-network:judge") for n in range(4)]
    assert found(trial(*crossed(0), *unasked)) == {("reward-judge-unreachable", "blocker")}


def test_what_the_cap_refused_is_said() -> None:
    seen = trial(scored_probe(Family.WRONG, "1", None, "judge-unreachable"), judging=replace(JUDGING, capped=7))
    assert "refused 7 questions" in next(
        f.message for f in reward_findings(seen) if f.code == "reward-judge-unreachable"
    )


@pytest.mark.parametrize(("differing", "severity"), [(0, None), (1, None), (2, "warning"), (5, "blocker")])
def test_a_judge_may_change_its_mind_once_in_twenty(differing: int, severity: str | None) -> None:
    repeats = []
    for n in range(24):
        one = judged(scored_probe(Family.GOLD, "", 1.0, row=n))
        again = replace(one.scored, reward=float(n >= differing))
        repeats.append(RepeatedScore(one.probe, one.scored, again, again))
    expected = set() if severity is None else {("reward-judge-unsteady", severity)}
    assert found(trial(repeats=tuple(repeats))) == expected


@pytest.mark.parametrize(
    ("info", "named"),
    [(replace(PINNED, temperature=None), True), (replace(PINNED, temperature=0.2), True), (PINNED, False)],
)
def test_a_judge_that_is_not_pinned_warns(info: JudgeInfo, named: bool) -> None:
    judging = JudgeUse((info,), frozenset({"judge-1"} if named else ()))
    assert found(trial(judging=judging)) == {("reward-judge-unpinned", "warning")}
