"""Compares a completion's reward with those of right and wrong answers to the same task, and builds rows of findings.

All rules use these functions. A row shows the quoted completion, its reward and the expected reward.
"""

from __future__ import annotations

import re
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
"""Share of the difference between the rewards of a wrong and the right answer from which a completion counts as paid
like the right one. It is below 1, because a missing form may cost a part."""


def gold_pass_rate(trial: Trial) -> float | None:
    """Return the share of scored golds that earn at least 99% of their task's maximum; None if no gold was scored."""
    scored = exclude_not_run(trial.golds)
    if not scored or (trial.style is None and not trial.by_rollouts):
        return None
    return sum(earned_in_full(s, trial) for s in scored) / len(scored)


def gold_is_paid(trial: Trial) -> bool:
    """Whether some gold earns more than a wrong answer, or the sum of all weights.

    Also True if this is unknown: without golds, and if the reward is tested by rollouts or solutions.
    """
    if trial.style is None or trial.by_rollouts or not trial.golds or trial.solved.best > EPSILON:
        return True
    paid = max(s.reward or 0.0 for s in trial.golds)
    wrong = [s.reward or 0.0 for s in trial.of(Family.WRONG)]
    return paid > EPSILON and (not wrong or paid > min(wrong) + EPSILON or paid >= trial.declared - EPSILON)


def all_wrongs_paid(trial: Trial) -> bool:
    """Whether every clearly wrong answer earned as much as the gold of its task."""
    pairs = [
        (s.reward, trial.gold(s.probe.row))
        for s in trial.of(Family.WRONG)
        if not (s.probe.near or s.probe.knowing or s.reward is None)
    ]
    return bool(pairs) and all(gold is not None and EPSILON < gold <= (w or 0.0) + EPSILON for w, gold in pairs)


def gold_is_understood(trial: Trial) -> bool:
    """Whether the field that was taken for the gold is really the answer: it earns more than a wrong answer.

    The gold also counts as understood in six other cases: the caller states the form that the prompts ask for as fields
    of the task, a judge scored it (the rules about judges then report the judge's errors), a whole rollout with the
    gold is paid, a solution was played, scoring the gold failed (another rule then reports the reason), or the gold
    earns at least half of the declared weights although wrong answers earn as much (such a reward pays wrong answers).

    A field that is no reply may still earn a little where replies are executed, searched or compared in part
    (`earns_by_chance`).
    """
    if trial.style is None or trial.by_rollouts or trial.solved.scored or trial.stated is not None:
        return True
    if any(p.script.part == "gold" and p.scored and (p.result.reward or 0.0) > EPSILON for p in trial.rollouts):
        return True
    golds = [s for s in (*exclude_not_run(trial.golds), *trial.of(Family.GOLD)) if not s.scored.has(*UNKNOWN_REWARD)]
    known = [s for s in golds if s.reward is not None]
    if not known or all(s.scored.broken for s in golds) or any(s.scored.judges for s in golds):
        return True
    if earns_by_chance(trial, max(s.reward or 0.0 for s in known)):
        return False
    lowest = _lowest_wrong(trial, Family.WRONG, Family.CROSS) or _lowest_wrong(trial, Family.EMPTY)
    pairs = [(s.reward or 0.0, lowest[s.probe.row]) for s in known if s.probe.row in lowest]
    if any(right > wrong + EPSILON for right, wrong in pairs):
        return True
    best = max(s.reward or 0.0 for s in known)
    return best > EPSILON and (not pairs or best >= HALF_SHARE * trial.declared - EPSILON)


_LITTLE = 0.1
"""Share of the declared weights below which the best gold does not show that golds are replies (our choice)."""


def earns_by_chance(trial: Trial, best: float) -> bool:
    """Whether the best gold earns so little that golds need not be replies.

    It is less than a tenth of the weights, or less than half while other golds earn less; or a supplied case that is
    expected to earn much earned more than twice as much. Where many golds fail, the field must also have the name of an
    answer, and must not list what the prompts state: words that a text has to contain may make a right reply at times.
    """
    cases = [s.scored_probe.reward or 0.0 for s in trial.supplied if s.high]
    if max(cases, default=0.0) > 2 * max(best, 0.0) + EPSILON:
        return True
    if best < _LITTLE * trial.declared - EPSILON:
        return True
    scored = [s for s in exclude_not_run(trial.golds) if s.reward is not None]
    failing = sum(not earned_in_full(s, trial) for s in scored)
    if failing <= (1 - GOLD_PASS) * len(scored):
        return False
    if best < HALF_SHARE * trial.declared - EPSILON and len({round(s.reward or 0.0, 6) for s in scored}) > 2:
        return True
    place = trial.style.golds.place if trial.style is not None else ""
    return failing > _UNNAMED * len(scored) and (trial.listed_in_prompts or not _TELLS_ANSWER.search(place))


_UNNAMED = 0.2
"""Share of failing golds above which a field is the answer only if its name says so (our choice)."""
_TELLS_ANSWER = re.compile(
    r"(?i)accept|alias|answer|gold|correct|valid|right|expect|soluti|target|label|refer|truth|resul|outp"
)


def _lowest_wrong(trial: Trial, *families: Family) -> dict[int, float]:
    """Map tasks to the lowest reward of a completion of these families that does not contain the right answer."""
    lowest: dict[int, float] = {}
    for scored_probe in trial.of(*families):
        if scored_probe.reward is not None and not needs_answer(scored_probe):
            lowest[scored_probe.probe.row] = min(
                scored_probe.reward, lowest.get(scored_probe.probe.row, scored_probe.reward)
            )
    return lowest


def exclude_not_run(scored_probes: Iterable[ScoredProbe]) -> list[ScoredProbe]:
    """Return the completions that were scored. Scoring may have stopped before the others."""
    return [s for s in scored_probes if not s.scored.has(ProblemCode.NOT_RUN)]


def earned_in_full(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion earned at least 99% of the maximum of its task."""
    maximum = trial.maximum(scored_probe.probe.row)
    return maximum > 0 and scored_probe.reward is not None and scored_probe.reward >= FULL_SHARE * maximum - EPSILON


def mean_reward(rewards: Sequence[float]) -> float | None:
    """Return the mean of the rewards; None without rewards."""
    return sum(rewards) / len(rewards) if rewards else None


def earned_as_gold(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion earned as much as the right answer of its task, while a wrong answer earned less."""
    gold, wrong = trial.gold(scored_probe.probe.row), trial.wrong(scored_probe.probe.row)
    if scored_probe.reward is None or gold is None or gold <= EPSILON:
        return False
    return scored_probe.reward >= gold - EPSILON and (wrong is None or wrong < gold - EPSILON)


def earned_mostly_as_gold(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion earned at least 80% of the difference between a wrong and the right answer.

    Its form may cost the rest. If a wrong answer earns as much as the right one, the test is that of `earned_as_gold`.
    """
    gold, wrong = trial.gold(scored_probe.probe.row), trial.wrong(scored_probe.probe.row)
    if scored_probe.reward is None or gold is None or wrong is None or wrong >= gold - EPSILON:
        return earned_as_gold(scored_probe, trial)
    return scored_probe.reward >= wrong + _MOSTLY * (gold - wrong)


def nearer_to_gold(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion's reward is nearer to that of the right answer than to that of a wrong answer."""
    gold, wrong = trial.gold(scored_probe.probe.row), trial.wrong(scored_probe.probe.row)
    if scored_probe.reward is None or gold is None or gold <= EPSILON:
        return False
    floor = wrong if wrong is not None and wrong < gold - EPSILON else 0.0
    return scored_probe.reward > floor + HALF_SHARE * (gold - floor) + EPSILON


_MOST_CHARACTERS = 300
"""Longest completion that a row shows in full, in characters."""


class CaseRow(dict[str, Any]):
    """A row of a finding that shows a scored completion: one entry of `failing_cases` in the report.

    `scored_probe` is not part of the row. Code that needs the completion or its family reads them from `scored_probe`.
    """

    def __init__(self, scored_probe: ScoredProbe, row: Mapping[str, Any]) -> None:
        super().__init__(row)
        self.scored_probe = scored_probe


def case_row(scored_probe: ScoredProbe, expected: str, trial: Trial, **more: Any) -> CaseRow:
    """Return a row with a completion, its reward and the expected reward. `more` replaces or adds fields."""
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
    """Return a reward as part of a sentence."""
    return "none" if reward is None else f"{reward:g}"


def paid_text(scored_probe: ScoredProbe, trial: Trial) -> str:
    """Return the end of a sentence that states a completion's reward, task and text."""
    most = trial.max_reward or trial.declared
    earned = "nothing computable" if scored_probe.reward is None else f"{scored_probe.reward:g} of {most:g}"
    return f"{earned} on task {scored_probe.probe.row} for {_completion(scored_probe, 160)}"


def _completion(scored_probe: ScoredProbe, limit: int = _MOST_CHARACTERS) -> str:
    return quote(scored_probe.probe.completion, limit) if scored_probe.probe.messages else "(no reply)"


def _gold(scored_probe: ScoredProbe, trial: Trial) -> str | None:
    """Return the quoted gold of the completion's task; None if it has none."""
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
    """Return a finding about completions that were paid although they are not right answers.

    `how` is the beginning of the message.
    """
    return Finding(
        code,
        severity,
        f"{how}: {paid_text(scored_probes[0], trial)}",
        fix,
        rows=tuple(case_row(s, "less than the right answer", trial) for s in scored_probes[:2]),
    )
