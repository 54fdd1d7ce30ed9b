"""Applies every rule to one trial, and derives the four sanity checks and the mean scores of each component.

A rule states a relation between rewards: a right answer earns more than a wrong one, a wrong answer at least as much as
an empty one, and equal completions earn equal rewards. A reward that pays for something wrong is a blocker, because
training exploits it. A reward that refuses something right is a warning, unless the golds themselves fail. The rules,
thresholds and severities are listed in docs/validation.md, Reward tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix
from prime_lab_mcp.lab.base.report import Finding, run_checks, worst_first
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import CaseRow, RewardRule, gold_is_understood, mean_reward
from prime_lab_mcp.lab.rewards.rules.answers import (
    constant,
    contradicts_prompt,
    empty_golds,
    gold_beaten,
    gold_fails,
    ignores_format,
    malformed_beats_wrong,
    marked_golds_fail,
    too_strict,
    wrong_answer_passes,
)
from prime_lab_mcp.lab.rewards.rules.asked_spellings import asked_spelling
from prime_lab_mcp.lab.rewards.rules.goldless import GOLDLESS_RULES
from prime_lab_mcp.lab.rewards.rules.hacks import HACK_RULES, PROGRAM_RULES, search_holes
from prime_lab_mcp.lab.rewards.rules.judges import JUDGE_RULES, judge_misread
from prime_lab_mcp.lab.rewards.rules.known_answers import (
    answer_left_out,
    gold_not_understood,
    no_gold,
    refuses_equal_ways,
    supplied_cases,
)
from prime_lab_mcp.lab.rewards.rules.leaked_answers import LEAK_RULES
from prime_lab_mcp.lab.rewards.rules.list_relations import LIST_RULES
from prime_lab_mcp.lab.rewards.rules.partly_right import PARTLY_RIGHT_RULES
from prime_lab_mcp.lab.rewards.rules.rollouts import ROLLOUT_RULES
from prime_lab_mcp.lab.rewards.rules.scoring import SCORING_RULES
from prime_lab_mcp.lab.rewards.rules.side_actions import SIDE_ACTION_RULES
from prime_lab_mcp.lab.rewards.rules.solution_parts import PART_RULES
from prime_lab_mcp.lab.rewards.rules.solutions import SOLUTION_RULES
from prime_lab_mcp.lab.rewards.thresholds import HALF_SHARE
from prime_lab_mcp.lab.worker.faults import ProblemCode


@dataclass(frozen=True, slots=True)
class SanityCheck:
    """One of the four sanity checks of a report. `code` is the finding that explains a failure."""

    name: str
    passed: bool | None
    """None if no scored completion could decide the check."""
    code: Code

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "passed": self.passed}


def reward_findings(trial: Trial) -> list[Finding]:
    """Return every finding about one trial, blockers first.

    Three sets of codes limit the findings in special cases. If the gold is not understood, only `_WITHOUT_GOLD`,
    findings of rules that need no gold and findings about supplied cases remain. If the sandbox refused an access, the
    only blockers that remain are those of `_NOT_BY_CONFINEMENT`. If the reward is constant or varies for equal text,
    single completions cannot be compared: only this finding and `_INDEPENDENT` remain.
    """
    findings = run_checks(REWARD_RULES, trial)
    if not gold_is_understood(trial):
        goldless = [*run_checks(GOLDLESS_RULES, trial), *run_checks((search_holes, judge_misread), trial)]
        findings = [f for f in findings if f.code in _WITHOUT_GOLD or f in goldless or _of_cases(f)]
    if not trial.run and not trial.rollouts and all(f.severity != "blocker" for f in findings):
        findings.append(_untested())
    if trial.with_problem(ProblemCode.CONFINED):
        # Any other blocker may be a consequence of the refused access.
        findings = [f for f in findings if f.code in _NOT_BY_CONFINEMENT or f.severity != "blocker"]
    decisive = [f for f in findings if f.code in _DECISIVE]
    if decisive:
        findings = decisive + [f for f in findings if f.code in _INDEPENDENT]
    return worst_first(_without_companions(findings))


def _without_companions(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out warnings that only follow from a failing gold, and name them in the fix of the blocker.

    If solutions, or right answers in the form that the prompt asks for, are not paid, other spellings are not paid
    either, and shares of the solutions' reward have no meaning.
    """
    causes = [f for f in findings if f.severity == "blocker" and f.code in _GOLD_UNPAID]
    held = [f for f in findings if causes and f.severity == "warning" and f.code in _FOLLOWS_FROM_GOLD]
    if not held:
        return list(findings)
    codes = ", ".join(dict.fromkeys(f.code for f in held))
    left_out = f"{count(len(held), 'warning')} that may follow from this {'is' if len(held) == 1 else 'are'} left out"
    cause = replace(causes[0], fix=Fix(causes[0].fix, f" {left_out} ({codes})."))
    return [cause if f is causes[0] else f for f in findings if f not in held]


def _untested() -> Finding:
    """Return the blocker for a trial in which no completion was scored, which must not count as a pass."""
    return Finding(
        "reward-untested",
        "blocker",
        "no completion was scored, so nothing is known about the reward",
        "Give cases with completions of your own: 3 that should earn a lot, 3 that should earn little, and 2 more.",
    )


_DECISIVE = frozenset({"reward-constant", "reward-nondeterministic", "reward-order-dependent"})
"""Codes of findings after which rewards of single completions cannot be compared."""
_GOLD_UNPAID = frozenset({"reward-gold-fails", "reward-contradicts-prompt"})
_FOLLOWS_FROM_GOLD = frozenset({"reward-too-strict", "paid-without-tool"})
"""Codes of warnings that follow from a blocker of `_GOLD_UNPAID`."""
_NOT_BY_CONFINEMENT = frozenset(
    {"confined", "reward-sync", "reward-type", "reward-nonfinite", "reward-evaluates-output"}
)
"""Codes of blockers that hold even if the sandbox refused an access."""
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
"""Codes of findings that hold even if the reward is constant or varies for equal text."""
_WITHOUT_GOLD = (
    _INDEPENDENT
    | _DECISIVE
    | {
        "gold-not-understood",
        "rollouts-too-slow",
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
"""Codes of findings that hold even if the tasks' answers are unknown."""


def _of_cases(finding: Finding) -> bool:
    """Whether all rows of a finding show supplied cases."""
    rows = [row.scored_probe.probe.family for row in finding.rows if isinstance(row, CaseRow)]
    return bool(rows) and all(family is Family.SUPPLIED for family in rows)


def sanity_checks(trial: Trial) -> list[SanityCheck]:
    """Return the four sanity checks. Half of the declared weights is the threshold of the second and third check.

    Supplied cases count as golds if they are expected to earn much, else as wrong answers.
    """
    understood = gold_is_understood(trial)
    golds = [s.reward for s in (*trial.golds, *trial.of(Family.GOLD)) if s.reward is not None and understood]
    wrong = trial.of(Family.WRONG, Family.MALFORMED_WRONG, Family.EMPTY) if understood else []
    wrongs = [s.reward for s in wrong if s.reward is not None and not (s.probe.near or s.probe.knowing)]
    golds += [s.scored_probe.reward for s in trial.supplied if s.high and s.scored_probe.reward is not None]
    wrongs += [s.scored_probe.reward for s in trial.supplied if not s.high and s.scored_probe.reward is not None]
    half = HALF_SHARE * trial.declared
    high, low = mean_reward(golds), mean_reward(wrongs)
    beaten = None if high is None or low is None else high > low
    played = (*trial.rollouts, *(p for _, p in trial.solved.changed))
    rewards = [s.reward for s in trial.everything] + [p.result.reward for p in played if p.scored]
    everything = {round(r, 9) for r in rewards if r is not None}
    only_solutions = trial.by_rollouts and not wrongs and not any(p.scored for p in played)
    return [
        SanityCheck("Gold rewards > wrong rewards", beaten, "reward-wrong-passes"),
        SanityCheck("At least one gold > 0.5", any(g > half for g in golds) if golds else None, "reward-gold-fails"),
        SanityCheck(
            "At least one wrong < 0.5", any(w < half for w in wrongs) if wrongs else None, "reward-wrong-passes"
        ),
        SanityCheck(
            "Not all rewards identical",
            len(everything) > 1 if everything and not only_solutions else None,
            "reward-constant",
        ),
    ]


REWARD_RULES: tuple[RewardRule, ...] = (
    *SCORING_RULES,
    *SIDE_ACTION_RULES,
    constant,
    no_gold,
    gold_not_understood,
    answer_left_out,
    contradicts_prompt,
    asked_spelling,
    empty_golds,
    gold_fails,
    marked_golds_fail,
    gold_beaten,
    wrong_answer_passes,
    malformed_beats_wrong,
    supplied_cases,
    refuses_equal_ways,
    *GOLDLESS_RULES,
    *HACK_RULES,
    *JUDGE_RULES,
    *PARTLY_RIGHT_RULES,
    *LIST_RULES,
    *PROGRAM_RULES,
    ignores_format,
    too_strict,
    *ROLLOUT_RULES,
    *SOLUTION_RULES,
    *PART_RULES,
    *LEAK_RULES,
    search_holes,
)


def component_means(trial: Trial) -> list[dict[str, Any]]:
    """Return the weight of each component with its mean scores for right and for wrong answers, for the report."""
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
    """Return the scores of one component."""
    scores = [s.scored.components[name].score for s in scored_probes if name in s.scored.components]
    return [f for f in scores if f is not None]


def _rounded(rewards: Sequence[float]) -> float | None:
    mean = mean_reward(rewards)
    return None if mean is None else round(mean, 4)
