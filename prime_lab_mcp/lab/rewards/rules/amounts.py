"""Shared by all rules: compares a completion's reward with those of right and wrong answers to the same task, and
builds the rows of findings.

A row shows the quoted completion, its reward, and the expected reward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding, Severity
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.rewards.trivial_policy import needs_answer
from prime_lab_mcp.lab.worker.faults import UNKNOWN_REWARD, ProblemCode

RewardRule = Callable[[Trial], Iterator[Finding]]
"""A rule: a pure function from the observations of a trial to findings."""
GOLD_PASS = 0.99
"""Smallest share of golds that must earn the maximum (docs/validation.md, Answer formats)."""
_MOSTLY = 0.8
"""Share of the difference between a wrong and the right answer, less than 1 because the form may cost a part."""


def gold_pass_rate(trial: Trial) -> float | None:
    """The share of scored golds that earn at least 99% of their task's maximum; None where no gold was scored."""
    scored = exclude_not_run(trial.golds)
    if not scored or (trial.style is None and not trial.by_rollouts):
        return None
    return sum(earned_in_full(s, trial) for s in scored) / len(scored)


def gold_is_paid(trial: Trial) -> bool:
    """Whether some gold in the style of the trial earns more than a wrong answer, or all that can be earned.

    True where that is not known: without golds, and where rollouts decide.
    """
    if trial.style is None or trial.by_rollouts or not trial.golds or trial.solved.best > EPSILON:
        return True
    paid = max(s.reward or 0.0 for s in trial.golds)
    wrong = [s.reward or 0.0 for s in trial.of(Family.WRONG)]
    return paid > EPSILON and (not wrong or paid > min(wrong) + EPSILON or paid >= trial.declared - EPSILON)


def gold_is_understood(trial: Trial) -> bool:
    """Whether what was taken for the gold is the answer: written in some form, it earns more than a wrong answer does.

    Also understood are golds that a judge was asked about (the rules about judges then say how it errs), golds that a
    whole rollout is paid for, tasks whose solution was played, golds that broke the scoring (the reason is then
    reported), and golds beside which wrong answers earn half of the declared weights or more: such a reward pays wrong
    answers, whatever the right one is.
    """
    if trial.style is None or trial.by_rollouts or trial.solved.scored:
        return True
    if any(p.script.part == "gold" and p.scored and (p.result.reward or 0.0) > EPSILON for p in trial.rollouts):
        return True
    golds = [s for s in (*exclude_not_run(trial.golds), *trial.of(Family.GOLD)) if not s.scored.has(*UNKNOWN_REWARD)]
    known = [s for s in golds if s.reward is not None]
    if not known or all(s.scored.broken for s in golds) or any(s.scored.judges for s in golds):
        return True
    lowest = _lowest_wrong(trial, Family.WRONG, Family.CROSS) or _lowest_wrong(trial, Family.EMPTY)
    pairs = [(s.reward or 0.0, lowest[s.probe.row]) for s in known if s.probe.row in lowest]
    if any(right > wrong + EPSILON for right, wrong in pairs):
        return True
    best = max(s.reward or 0.0 for s in known)
    return best > EPSILON and (not pairs or best >= HALF_SHARE * trial.declared - EPSILON)


def _lowest_wrong(trial: Trial, *families: Family) -> dict[int, float]:
    """By task: the lowest reward of a completion of these families that does not hold the right answer."""
    lowest: dict[int, float] = {}
    for scored_probe in trial.of(*families):
        if scored_probe.reward is not None and not needs_answer(scored_probe):
            lowest[scored_probe.probe.row] = min(
                scored_probe.reward, lowest.get(scored_probe.probe.row, scored_probe.reward)
            )
    return lowest


def exclude_not_run(scored_probes: Iterable[ScoredProbe]) -> list[ScoredProbe]:
    return [s for s in scored_probes if not s.scored.has(ProblemCode.NOT_RUN)]


def earned_in_full(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion earned the maximum of its task."""
    maximum = trial.maximum(scored_probe.probe.row)
    return maximum > 0 and scored_probe.reward is not None and scored_probe.reward >= FULL_SHARE * maximum - EPSILON


def mean_reward(rewards: Sequence[float]) -> float | None:
    return sum(rewards) / len(rewards) if rewards else None


def earned_as_gold(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion earned as much as the right answer of its task, while a wrong answer earned less."""
    gold, wrong = trial.gold(scored_probe.probe.row), trial.wrong(scored_probe.probe.row)
    if scored_probe.reward is None or gold is None or gold <= EPSILON:
        return False
    return scored_probe.reward >= gold - EPSILON and (wrong is None or wrong < gold - EPSILON)


def earned_mostly_as_gold(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion earned 80% of the difference between a wrong and the right answer: its form may cost the
    rest.
    """
    gold, wrong = trial.gold(scored_probe.probe.row), trial.wrong(scored_probe.probe.row)
    if scored_probe.reward is None or gold is None or wrong is None or wrong >= gold - EPSILON:
        return earned_as_gold(scored_probe, trial)
    return scored_probe.reward >= wrong + _MOSTLY * (gold - wrong)


def nearer_to_gold(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a reward is nearer to the reward of the right answer than to the reward of a wrong answer."""
    gold, wrong = trial.gold(scored_probe.probe.row), trial.wrong(scored_probe.probe.row)
    if scored_probe.reward is None or gold is None or gold <= EPSILON:
        return False
    floor = wrong if wrong is not None and wrong < gold - EPSILON else 0.0
    return scored_probe.reward > floor + HALF_SHARE * (gold - floor) + EPSILON


_MOST_CHARACTERS = 300


class CaseRow(dict[str, Any]):
    """A row of a finding that shows a scored completion: one line of `failing_cases`.

    `scored_probe` is not shown. Code that reads findings takes the completion and its family from `scored_probe`, never
    from the row.
    """

    def __init__(self, scored_probe: ScoredProbe, row: Mapping[str, Any]) -> None:
        super().__init__(row)
        self.scored_probe = scored_probe


def case_row(scored_probe: ScoredProbe, expected: str, trial: Trial, **more: Any) -> CaseRow:
    """A row with a completion, its reward and the expected reward. `more` replaces or adds fields."""
    row: dict[str, Any] = {
        "case": scored_probe.probe.label,
        "task": scored_probe.probe.row,
        "completion": _completion(scored_probe),
        "expected": expected,
        "reward": scored_probe.reward if scored_probe.reward is None else round(scored_probe.reward, 6),
    }
    gold = _gold(scored_probe, trial)
    if gold:
        row["gold"] = gold
    return CaseRow(scored_probe, row | more)


def reward_text(reward: float | None) -> str:
    """A reward as part of a sentence."""
    return "none" if reward is None else f"{reward:g}"


def paid_text(scored_probe: ScoredProbe, trial: Trial) -> str:
    """The reward of one completion, as the end of a sentence."""
    earned = "nothing computable" if scored_probe.reward is None else f"{scored_probe.reward:g} of {trial.max_reward:g}"
    return f"{earned} on task {scored_probe.probe.row} for {_completion(scored_probe, 160)}"


def _completion(scored_probe: ScoredProbe, limit: int = _MOST_CHARACTERS) -> str:
    return quote(scored_probe.probe.completion, limit) if scored_probe.probe.messages else "(no reply)"


def _gold(scored_probe: ScoredProbe, trial: Trial) -> str | None:
    if trial.style is None:
        return None
    gold = next((g for g in trial.style.golds.golds if g.row == scored_probe.probe.row), None)
    return None if gold is None else quote(gold.raw, 80)


def hack_finding(
    severity: Severity,
    scored_probes: Sequence[ScoredProbe],
    how: str,
    fix: str,
    trial: Trial,
    code: Code = "reward-hackable",
) -> Finding:
    """A finding about completions that were paid without a right answer; `how` begins its message."""
    return Finding(
        code,
        severity,
        f"{how}: {paid_text(scored_probes[0], trial)}",
        fix,
        rows=tuple(case_row(s, "less than the right answer", trial) for s in scored_probes[:2]),
    )
