"""The verdict: what the decision table found (rules.py, rules_parts.py), the seed's five checks, three-valued.

Wholly on the failing side of a threshold fails; across it is inconclusive, with the number of tasks that would decide;
else it passes. Fewer than 30 tasks or 4 rollouts each never pass. A failure outweighs what is inconclusive.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from prime_lab_mcp.lab.distribution.advice import MEAN_HIGH, MEAN_LOW, MIN_FORMAT, MIN_SAMPLE, MIN_STD
from prime_lab_mcp.lab.distribution.measured import Measured
from prime_lab_mcp.lab.distribution.rules import on_failures, on_means, on_signal, on_size
from prime_lab_mcp.lab.distribution.rules_parts import on_components, on_form, on_lengths
from prime_lab_mcp.lab.distribution.summary import Check, Distribution, Status
from prime_lab_mcp.lab.report import Finding, Next, Severity

UNCLEAR = frozenset({
    "distribution-too-small", "distribution-unclear", "eval-all-errors",
})  # fmt: skip
"""Blockers that say nothing was decided; every other blocker is a failure."""


def decide(facts: Distribution, seen: Measured) -> Distribution:
    """`facts` with its checks, findings and status."""
    findings = [*on_failures(facts, seen)]
    if facts.scored:
        findings += on_means(facts, seen)
        findings += on_signal(facts, seen)
        findings += on_form(facts, seen)
        findings += on_components(facts)
        findings += on_size(facts, seen)
        findings += on_lengths(facts)
    if any(f.severity == "blocker" and f.code not in UNCLEAR for f in findings):
        # What has failed needs no larger sample to say so.
        findings = [f for f in findings if f.code != "distribution-unclear"]
    order: dict[Severity, int] = {"blocker": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda f: (order[f.severity], f.code in UNCLEAR))
    return dataclasses.replace(facts, status=_status(findings), findings=tuple(findings), checks=tuple(_checks(facts)))


def _status(findings: list[Finding]) -> Status:
    blockers = [f.code for f in findings if f.severity == "blocker"]
    if any(code not in UNCLEAR for code in blockers):
        return "failed"
    return "inconclusive" if blockers else "passed"


def _checks(facts: Distribution) -> Iterator[Check]:
    """The seed's five, on the estimates; the verdict rests on intervals. A format score of 0 is a zero, not missing."""
    mean, std, form = facts.mean, facts.std, facts.form
    yield Check("sample-count", facts.scored, f">= {MIN_SAMPLE}", facts.scored >= MIN_SAMPLE)
    yield Check("not-all-zero", mean, f"> {MEAN_LOW}", mean is not None and mean > MEAN_LOW)
    yield Check("not-all-one", mean, f"< {MEAN_HIGH}", mean is not None and mean < MEAN_HIGH)
    yield Check("variance", std, f"> {MIN_STD}", std is not None and std > MIN_STD)
    yield Check("format", form.mean if form else None, f"> {MIN_FORMAT}", form.mean > MIN_FORMAT if form else None)


_TASKS_AT_FAULT = frozenset({
    "distribution-too-hard", "distribution-too-easy", "distribution-no-signal", "distribution-all-one",
    "distribution-at-floor", "distribution-too-hard-mostly", "distribution-too-easy-mostly",
    "distribution-weak-signal", "distribution-between-tasks",
})  # fmt: skip
_REWARD_AT_FAULT = frozenset({
    "distribution-nonfinite", "distribution-constant", "distribution-narrow-range", "distribution-format-dominates",
})  # fmt: skip
_ZEROS = frozenset({
    "distribution-all-zero", "distribution-truncated", "distribution-format-low", "distribution-unparsed",
})  # fmt: skip


def next_calls(facts: Distribution, environment: str, evaluation: str | None) -> tuple[Next, ...]:
    """Where a verdict leads: to the rollouts behind the zeros, to other tasks, to the reward, or to a larger sample."""
    given = {"eval": evaluation} if evaluation else {}
    codes = {f.code for f in facts.findings if f.severity != "info"}
    blocked = {f.code for f in facts.findings if f.severity == "blocker"}
    difficulty = Next("read_eval", "which tasks to keep, in which order", {**given, "view": "difficulty"})
    found: list[Next] = []
    if facts.status == "passed":
        if environment:
            why = "the reward distribution can be trained on"
            found.append(Next("push_environment", why, {"environment": environment}))
        if codes & _TASKS_AT_FAULT:
            found.append(difficulty)
        return tuple(found)
    if "eval-errors" in blocked or "eval-all-errors" in blocked:
        why = "see what the failed rollouts say"
        found.append(Next("read_eval", why, {**given, "view": "rollouts", "where": "error"}))
    if blocked & _ZEROS:
        found.append(Next("read_eval", "see which rollouts got no reward and why", {**given, "view": "zeros"}))
    if blocked & _REWARD_AT_FAULT and environment:
        found.append(Next("test_reward", "see what right and wrong answers earn", {"environment": environment}))
    if codes & _TASKS_AT_FAULT and not (blocked & UNCLEAR):
        found.append(difficulty)
    if blocked & UNCLEAR and "eval-all-errors" not in blocked:
        found.append(
            Next("run_eval", "as large as the fix says", {"environment": environment} if environment else None)
        )
    return tuple(found) or (Next("read_eval", "see which rollouts got no reward and why", {**given, "view": "zeros"}),)
