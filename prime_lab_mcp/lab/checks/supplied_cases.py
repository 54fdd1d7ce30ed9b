"""What the caller's own cases say about a reward, and what an environment without golds rests on."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.checks.earned import HALF
from prime_lab_mcp.lab.checks.shown import case_row, paid
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import EPSILON, JUDGE_FAILED, Supplied, Trial
from prime_lab_mcp.lab.text import count

MIN_CASES = 8
MIN_SIDE = 3
"""Supplied cases that an environment without golds rests on, and how many of them high and low (DESIGN section 3)."""


def supplied_cases(trial: Trial) -> Iterator[Finding]:
    """What the caller knows to be right or wrong decides, whatever the probes say."""
    unknown = JUDGE_FAILED | {"not-run"}
    failing = [s for s in trial.supplied if not unknown & set(s.shot.scored.problems) and not met(s, trial)]
    low = [s for s in failing if not s.high]
    high = [s for s in failing if s.high]
    for code, cases, how in (
        ("reward-wrong-passes", low, "earned more than they should"),
        ("reward-too-strict", high, "earned less than they should"),
    ):
        if cases:
            yield Finding(
                code,
                "blocker",
                f"{count(len(cases), 'supplied case')} {how}: {paid(cases[0].shot, trial)}",
                "Mend the reward, or the case's expectation if that is wrong, then call test_reward.",
                rows=tuple(case_row(s.shot, str(s.expected), trial) for s in cases[:5]),
            )
    if trial.unmatched:
        yield Finding(
            "case-without-task",
            "warning",
            f"{count(len(trial.unmatched), 'supplied case')} could not be run: no task has their answer",
            'Give each case the index of its task as "task", or an "answer" that a task has.',
        )


def met(case: Supplied, trial: Trial) -> bool:
    """Whether a case earned what was expected: by its total, its share of the maximum, or its weightiest component."""
    reward, expected = case.shot.reward, case.expected
    if reward is None:
        return False
    half = HALF * (trial.max_reward or trial.declared)
    if isinstance(expected, str):
        return reward >= half - EPSILON if expected == "high" else reward < half
    scores = [reward, reward / (trial.max_reward or trial.declared), reward / trial.declared]
    parts = case.shot.scored.components
    if parts:
        heaviest = max(parts.values(), key=lambda c: c.weight)
        scores += [heaviest.score] if heaviest.score is not None else []
    return any(abs(score - expected) <= 0.011 for score in scores)


def cases_suffice(trial: Trial) -> bool:
    """Enough supplied cases of both sides, all as expected."""
    run = [s for s in trial.supplied if "not-run" not in s.shot.scored.problems]
    high = sum(s.high for s in run)
    return (
        len(run) >= MIN_CASES and high >= MIN_SIDE and len(run) - high >= MIN_SIDE and all(met(s, trial) for s in run)
    )


def no_gold(trial: Trial) -> Iterator[Finding]:
    """Without a known right answer only supplied cases can tell a reward from a coin."""
    if trial.style is not None:
        return
    run = [s for s in trial.supplied if "not-run" not in s.shot.scored.problems]
    high = sum(s.high for s in run)
    if len(run) < MIN_CASES or high < MIN_SIDE or len(run) - high < MIN_SIDE:
        yield Finding(
            "reward-no-gold",
            "blocker",
            f"the tasks hold no gold answer, and {count(len(run), 'supplied case')} ({high} high) are too few",
            f"Call test_reward with cases: at least {MIN_CASES}, {MIN_SIDE} expected high and {MIN_SIDE} low.",
        )
