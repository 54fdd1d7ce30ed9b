"""Applies every rule to one trial, and derives the four sanity checks and the mean rewards of each component.

Rules state relations between rewards instead of values: right beats wrong, wrong beats nothing, equal input gives equal
output. Paying for something wrong is a blocker, because training exploits it. Refusing something right is a warning,
unless the golds themselves fail. Rules, thresholds and severities: docs/validation.md, Reward tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding, run_checks, worst_first
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import CaseRow, RewardRule, gold_is_understood, mean_reward
from prime_lab_mcp.lab.rewards.rules.answers import (
    PARTLY_RIGHT_RULES,
    constant,
    contradicts_prompt,
    empty_golds,
    gold_beaten,
    gold_fails,
    gold_not_understood,
    ignores_format,
    malformed_beats_wrong,
    no_gold,
    supplied_cases,
    too_strict,
    wrong_answer_passes,
)
from prime_lab_mcp.lab.rewards.rules.goldless import GOLDLESS_RULES
from prime_lab_mcp.lab.rewards.rules.hacks import HACK_RULES, PROGRAM_RULES, SIDE_ACTION_RULES, search_holes
from prime_lab_mcp.lab.rewards.rules.judges import JUDGE_RULES
from prime_lab_mcp.lab.rewards.rules.rollouts import ROLLOUT_RULES
from prime_lab_mcp.lab.rewards.rules.scoring import SCORING_RULES
from prime_lab_mcp.lab.rewards.rules.solutions import SOLUTION_RULES
from prime_lab_mcp.lab.rewards.rules.told_answers import TOLD_RULES
from prime_lab_mcp.lab.rewards.thresholds import HALF_SHARE
from prime_lab_mcp.lab.worker.faults import ProblemCode


@dataclass(frozen=True, slots=True)
class SanityCheck:
    """One of the four sanity checks of a report. `code` is the finding that explains a failure."""

    name: str
    passed: bool | None
    """None where no scored completion could decide the check."""
    code: Code

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "passed": self.passed}


def reward_findings(trial: Trial) -> list[Finding]:
    """Every finding about one trial, blockers first.

    Where the confinement refused something, the report is inconclusive.

    Where the reward is constant, or varies for equal text, comparing single completions is meaningless: then only that
    finding and the findings of `_INDEPENDENT` are reported.
    """
    findings = run_checks(REWARD_RULES, trial)
    if not gold_is_understood(trial):
        findings = [f for f in findings if f.code in _WITHOUT_GOLD or _of_cases(f)]
    if not trial.run and not trial.rollouts and all(f.severity != "blocker" for f in findings):
        findings.append(_untested())
    if trial.with_problem(ProblemCode.CONFINED):
        # Other blockers may follow from what was refused.
        findings = [f for f in findings if f.code in _NOT_BY_CONFINEMENT or f.severity != "blocker"]
    decisive = [f for f in findings if f.code in _DECISIVE]
    if decisive:
        findings = decisive + [f for f in findings if f.code in _INDEPENDENT]
    return worst_first(findings)


def _untested() -> Finding:
    """What scored nothing must not pass for a reward without faults."""
    return Finding(
        "reward-untested",
        "blocker",
        "no completion was scored, so nothing is known about the reward",
        "Give cases with completions of your own: 3 that should earn a lot, 3 that should earn little, and 2 more.",
    )


_DECISIVE = frozenset({"reward-constant", "reward-nondeterministic", "reward-order-dependent"})
"""Codes that make comparisons of single completions meaningless."""
_NOT_BY_CONFINEMENT = frozenset(
    {"confined", "reward-sync", "reward-type", "reward-nonfinite", "reward-evaluates-output"}
)
"""Codes of blockers that hold whatever the confinement refused."""
_INDEPENDENT = frozenset(
    {
        "confined",
        "reward-raises",
        "reward-slow",
        "reward-sync",
        "reward-type",
        "reward-nonfinite",
        "tasks-change",
        "reward-judge-unreachable",
        "reward-judge-unread",
        "reward-rollout-fails",
        "reward-rollout-endless",
        "reward-evaluates-output",
        "reward-opens-network",
        "reward-differs-outside",
        "reward-witness-failed",
        "reward-not-witnessed",
        "reward-writes-files",
        "reward-leaves-processes",
        "reward-solution-broken",
    }
)
_WITHOUT_GOLD = (
    _INDEPENDENT
    | _DECISIVE
    | {
        "gold-not-understood",
        "case-without-task",
        "reward-concurrency",
        "reward-mutates",
        "reward-blocks-loop",
        "reward-partly-tested",
        "reward-rollout-differs",
        "reward-judge-unpinned",
        "reward-judge-unsteady",
    }
)
"""Codes of findings that hold whatever the answer of a task is."""


def _of_cases(finding: Finding) -> bool:
    """Whether a finding rests on supplied cases alone."""
    rows = [row.scored_probe.probe.family for row in finding.rows if isinstance(row, CaseRow)]
    return bool(rows) and all(family is Family.SUPPLIED for family in rows)


def sanity_checks(trial: Trial) -> list[SanityCheck]:
    """The four sanity checks, on rewards as shares of the declared weights. Supplied cases count as gold or wrong."""
    understood = gold_is_understood(trial)
    golds = [s.reward for s in (*trial.golds, *trial.of(Family.GOLD)) if s.reward is not None and understood]
    wrong = trial.of(Family.WRONG, Family.MALFORMED_WRONG, Family.EMPTY) if understood else []
    wrongs = [s.reward for s in wrong if s.reward is not None and not (s.probe.near or s.probe.knowing)]
    golds += [s.scored_probe.reward for s in trial.supplied if s.high and s.scored_probe.reward is not None]
    wrongs += [s.scored_probe.reward for s in trial.supplied if not s.high and s.scored_probe.reward is not None]
    half = HALF_SHARE * trial.declared
    high, low = mean_reward(golds), mean_reward(wrongs)
    beaten = None if high is None or low is None else high > low
    everything = {round(r, 9) for s in trial.everything if (r := s.reward) is not None}
    return [
        SanityCheck("Gold rewards > wrong rewards", beaten, "reward-wrong-passes"),
        SanityCheck("At least one gold > 0.5", any(g > half for g in golds) if golds else None, "reward-gold-fails"),
        SanityCheck(
            "At least one wrong < 0.5", any(w < half for w in wrongs) if wrongs else None, "reward-wrong-passes"
        ),
        SanityCheck("Not all rewards identical", len(everything) > 1 if everything else None, "reward-constant"),
    ]


REWARD_RULES: tuple[RewardRule, ...] = (
    *SCORING_RULES,
    *SIDE_ACTION_RULES,
    constant,
    no_gold,
    gold_not_understood,
    contradicts_prompt,
    empty_golds,
    gold_fails,
    gold_beaten,
    wrong_answer_passes,
    malformed_beats_wrong,
    supplied_cases,
    *GOLDLESS_RULES,
    *HACK_RULES,
    *JUDGE_RULES,
    *PARTLY_RIGHT_RULES,
    *PROGRAM_RULES,
    ignores_format,
    too_strict,
    *ROLLOUT_RULES,
    *SOLUTION_RULES,
    *TOLD_RULES,
    search_holes,
)


def component_means(trial: Trial) -> list[dict[str, Any]]:
    """The weight of each component with its mean scores for right and for wrong answers."""
    golds = [*trial.golds, *(s.scored_probe for s in trial.supplied if s.high)]
    wrongs = [*trial.of(Family.WRONG), *(s.scored_probe for s in trial.supplied if not s.high)]
    names = dict.fromkeys([r.name for r in trial.rewards if r.kind != "metric"])
    weights = {r.name: r.weight for r in trial.rewards}
    for scored_probe in golds:
        for name, part in scored_probe.scored.components.items():
            names.setdefault(name)
            weights.setdefault(name, part.weight)
    return [
        {
            "name": name,
            "weight": weights.get(name, 1.0),
            "gold_mean": _rounded(_part(golds, name)),
            "wrong_mean": _rounded(_part(wrongs, name)),
        }
        for name in names
    ]


def _part(scored_probes: Sequence[ScoredProbe], name: str) -> list[float]:
    scores = [s.scored.components[name].score for s in scored_probes if name in s.scored.components]
    return [f for f in scores if f is not None]


def _rounded(rewards: Sequence[float]) -> float | None:
    mean = mean_reward(rewards)
    return None if mean is None else round(mean, 4)
