"""Runs checks over a subject, and sorts, merges and caps their findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import ParamSpec

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import SEVERITIES, Finding

P = ParamSpec("P")
_RANK = {severity: rank for rank, severity in enumerate(SEVERITIES)}
_PLACES = 6
"""How many locations the last shown finding lists for the findings that are not shown."""


def run_checks(
    checks: Iterable[Callable[P, Iterable[Finding]]], /, *subject: P.args, **named: P.kwargs
) -> list[Finding]:
    """Run every check on one subject and return their findings in the order of the checks."""
    return [finding for check in checks for finding in check(*subject, **named)]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity: blockers, warnings, information. Findings of one severity keep their order."""
    return sorted(findings, key=lambda f: _RANK[f.severity])


def merged(findings: Iterable[Finding], codes: Collection[Code]) -> list[Finding]:
    """Keep one finding for each of `codes`: the first one, or the first blocker if the first one is no blocker.

    Findings with other codes are all kept.
    """
    result: list[Finding] = []
    position_of: dict[str, int] = {}
    for finding in findings:
        position = position_of.get(finding.code)
        if finding.code not in codes or position is None:
            position_of.setdefault(finding.code, len(result))
            result.append(finding)
        elif finding.severity == "blocker" and result[position].severity != "blocker":
            result[position] = finding
    return result


def capped(findings: Iterable[Finding], each: int) -> list[Finding]:
    """Keep at most `each` findings per code and severity.

    The message of the last kept one says how many more there are, and where the first of those are.
    """
    findings = list(findings)
    groups: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.code, finding.severity].append(finding)
    result: list[Finding] = []
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    for finding in findings:
        key = finding.code, finding.severity
        counts[key] += 1
        rest = groups[key][each:]
        if counts[key] < each or (counts[key] == each and not rest):
            result.append(finding)
        elif counts[key] == each:
            places = ", ".join(f.where for f in rest[:_PLACES] if f.where)
            more = f"; {len(rest)} more like it" + (f" at {places}" if places else "")
            result.append(replace(finding, message=finding.message + more))
    return result
