"""Decides the verdict on a reward distribution: applies every rule, says each fact once, and combines the findings.

One failed rule outweighs any inconclusive ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding, worst_first
from prime_lab_mcp.lab.distribution.rules import (
    MEAN_HIGH,
    MEAN_LOW,
    MIN_FORMAT,
    MIN_SAMPLE,
    MIN_STD,
    on_components,
    on_failures,
    on_form,
    on_lengths,
    on_means,
    on_signal,
    on_size,
    on_tool_use,
)
from prime_lab_mcp.lab.distribution.summary import Distribution, DistributionCheck, Estimates, Status

UNCLEAR_CODES = frozenset(
    {
        "distribution-too-small",
        "distribution-unclear",
        "eval-all-errors",
    }
)
"""Codes of blockers that leave the verdict open. Every other blocker is a failure."""


def decide_verdict(facts: Distribution, estimates: Estimates) -> Distribution:
    """Apply all rules and return `facts` with its checks, findings and status."""
    findings = [*on_failures(facts, estimates)]
    if facts.scored:
        findings += on_means(facts, estimates)
        findings += on_signal(facts, estimates)
        findings += on_form(facts, estimates)
        findings += on_components(facts)
        findings += on_tool_use(facts)
        findings += on_size(facts, estimates)
        findings += on_lengths(facts)
    if any(f.severity == "blocker" and f.code not in UNCLEAR_CODES for f in findings):
        # A failure is certain, so advice about a larger sample would be misleading.
        findings = [f for f in findings if f.code != "distribution-unclear"]
    elif facts.paid_nothing:
        findings = _one_unclear(findings)
    findings = worst_first(sorted(_one_fact(findings), key=_causes_first))
    findings = _advice_once(_with_one_size(findings))
    return dataclasses.replace(facts, status=_status(findings), findings=tuple(findings), checks=tuple(_checks(facts)))


_CAUSES = ("distribution-truncated", "distribution-format-low", "distribution-unparsed")
"""Codes that say why rewards are low. The other codes say how low they are, and that a run would learn nothing."""


_SAME_FACT: Mapping[Code, frozenset[Code]] = {
    "distribution-dead": frozenset(
        {
            "distribution-at-floor",
            "distribution-near-floor",
            "distribution-constant",
            "distribution-narrow-range",
            "distribution-no-signal",
            "distribution-weak-signal",
            "distribution-between-tasks",
            "distribution-too-hard",
            "distribution-too-hard-mostly",
            "distribution-format-dominates",
        }
    ),
    "distribution-all-one": frozenset(
        {
            "distribution-constant",
            "distribution-narrow-range",
            "distribution-no-signal",
            "distribution-weak-signal",
            "distribution-between-tasks",
            "distribution-too-easy",
            "distribution-too-easy-mostly",
            "distribution-constant-component",
            "distribution-format-saturated",
        }
    ),
}
"""What follows where nothing was solved, or everything. Advice of their own (drop the component that is always earned,
balance the answers) would be wrong there."""


def _one_fact(findings: list[Finding]) -> list[Finding]:
    """Leave out findings that only say again that nothing or everything was solved."""
    blocked = {f.code for f in findings if f.severity == "blocker"}
    same = _SAME_FACT["distribution-dead"] if blocked & {"distribution-dead", "distribution-all-zero"} else frozenset()
    if "distribution-all-one" in blocked:
        same |= _SAME_FACT["distribution-all-one"]
    return [f for f in findings if f.code not in same]


def _one_unclear(findings: list[Finding]) -> list[Finding]:
    """Keep the first of the findings that are unclear because nothing was paid: the others say the same of a variation
    and of groups that only exist once something is paid."""
    unclear = [f for f in findings if f.code == "distribution-unclear"]
    return [f for f in findings if f not in unclear[1:]]


def _causes_first(finding: Finding) -> int:
    return 2 if finding.code in UNCLEAR_CODES else 0 if finding.code in _CAUSES else 1


def _with_one_size(findings: list[Finding]) -> list[Finding]:
    """Give what a too small sample leaves open the size that every sample needs first.

    The size that would decide it is computed from that sample, so that it says little.
    """
    small = next((f for f in findings if f.code == "distribution-too-small" and f.severity == "blocker"), None)
    if small is None:
        return findings
    return [
        dataclasses.replace(f, fix=small.fix, rows=small.rows) if f.code == "distribution-unclear" else f
        for f in findings
    ]


def _advice_once(findings: list[Finding]) -> list[Finding]:
    """Replace an advice that stands above already by a reference to it."""
    first: dict[str, Code] = {}
    told = []
    for finding in findings:
        code = first.setdefault(str(finding.fix), finding.code)
        again = finding.severity != "info" and code != finding.code
        told.append(dataclasses.replace(finding, fix=f"As for {code}.") if again else finding)
    return told


def _status(findings: list[Finding]) -> Status:
    blockers = [f.code for f in findings if f.severity == "blocker"]
    if any(code not in UNCLEAR_CODES for code in blockers):
        return "failed"
    return "inconclusive" if blockers else "passed"


def _checks(facts: Distribution) -> Iterator[DistributionCheck]:
    """Yield the five reward checks. They compare the estimates, while the verdict compares their intervals."""
    mean, std, form = facts.mean, facts.std, facts.form
    yield DistributionCheck("sample-count", facts.scored, f">= {MIN_SAMPLE}", facts.scored >= MIN_SAMPLE)
    yield DistributionCheck("not-all-zero", mean, f"> {MEAN_LOW}", mean is not None and mean > MEAN_LOW)
    yield DistributionCheck("not-all-one", mean, f"< {MEAN_HIGH}", mean is not None and mean < MEAN_HIGH)
    yield DistributionCheck("variance", std, f"> {MIN_STD}", std is not None and std > MIN_STD)
    yield DistributionCheck(
        "format", form.mean if form else None, f"> {MIN_FORMAT}", form.mean > MIN_FORMAT if form else None
    )
