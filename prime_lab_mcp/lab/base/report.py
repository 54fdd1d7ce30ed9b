"""Defines the report that every tool call returns, and its parts: findings, unmet requirements, next calls and links.

The module also runs checks, and sorts, merges and limits their findings.

The fields of `Report` are a public interface. A flaw in the user's material is a `Finding`; an operation that could
not be carried out is a `LabError` (errors.py), which reaches the agent as a report too. A tool body itself returns an
`Outcome` (lab/state/outcome.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, ParamSpec

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix, calls_record

Status = Literal["passed", "failed", "inconclusive", "running", "blocked", "needs_confirmation", "error"]
Verdict = Literal["passed", "failed", "inconclusive", "running"]
Severity = Literal["blocker", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("blocker", "warning", "info")
"""All severities, the most severe first."""
Why = Literal["never-run", "failed", "inconclusive", "stale", "rehearsal", "model"]
"""The reason why a gate does not accept the evidence."""
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One flaw in the user's material, or one fact about it.

    `code` is the stable name of the kind of finding. `fix` says what to do next. `where` names the file, row or field.
    `rows` holds details as data.
    """

    code: Code
    severity: Severity
    message: str
    fix: str
    where: str | None = None
    rows: tuple[Json, ...] = ()

    def as_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "fix": str(self.fix),
        }
        if self.where:
            result["where"] = self.where
        if self.rows:
            result["rows"] = [dict(row) for row in self.rows]
        return result

    def as_record(self) -> dict[str, Any]:
        """Return the finding as JSON values from which `from_record` makes it again."""
        return {**self.as_json(), "calls": calls_record(self.fix)}

    @classmethod
    def from_record(cls, record: Json) -> Finding:
        """Return the finding of a record. Records of older releases name no calls."""
        stated = {name: value for name, value in record.items() if name != "calls"}
        return cls(**{**stated, "fix": Fix.from_record(record["fix"], record.get("calls", ()))})


@dataclass(frozen=True, slots=True)
class Unmet:
    """One piece of evidence that a gate requires and that is missing. `tool` produces this evidence."""

    tool: str
    why: Why
    detail: str
    arguments: Json | None = None
    """Arguments of the call that produces the evidence; None if they are unknown."""
    instead: Next | None = None
    """The call to make where another call of `tool` would have the same result; None if `tool` is right."""

    def as_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {"tool": self.tool, "why": self.why, "detail": self.detail}
        if self.arguments:
            result["arguments"] = dict(self.arguments)
        return result


@dataclass(frozen=True, slots=True)
class Next:
    """A recommended next call, and the reason for it."""

    tool: str
    why: str
    arguments: Json | None = None

    def as_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {"tool": self.tool, "why": self.why}
        if self.arguments:
            result["arguments"] = dict(self.arguments)
        return result


@dataclass(frozen=True, slots=True)
class Link:
    """A resource (`lab://...`) or web page with more detail than the report."""

    uri: str
    title: str

    def as_json(self) -> dict[str, Any]:
        return {"uri": self.uri, "title": self.title}


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that accompanies a report: a file of this server, and a title that says what the image shows."""

    path: Path
    title: str
    media_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class Report:
    """The structured content of every tool result."""

    status: Status
    summary: str
    findings: tuple[Finding, ...] = ()
    data: Json = field(default_factory=dict)
    unmet: tuple[Unmet, ...] = ()
    next: tuple[Next, ...] = ()
    links: tuple[Link, ...] = ()
    pictures: tuple[Picture, ...] = ()
    """Images, which are not part of the JSON: the server sends them as images, the terminal prints their file names."""

    @property
    def is_error(self) -> bool:
        """Whether the call was refused or could not be carried out. A failed verdict is not an error."""
        return self.status in ("blocked", "error")

    def as_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "summary": self.summary,
            "findings": [f.as_json() for f in self.findings],
            "data": dict(self.data),
            "unmet": [u.as_json() for u in self.unmet],
            "next": [n.as_json() for n in self.next],
            "links": [link.as_json() for link in self.links],
        }


def verdict_of(findings: tuple[Finding, ...] | list[Finding]) -> Literal["passed", "failed"]:
    """`failed` if any finding is a blocker, else `passed`."""
    return "failed" if any(f.severity == "blocker" for f in findings) else "passed"


Progress = Callable[[float, float | None, str], Awaitable[None]]
"""A callback for progress: the amount done, the total (None if unknown) and a message."""
Say = Callable[[str], Awaitable[None]]
"""A callback for steps that cannot measure their progress. The argument is a message."""


P = ParamSpec("P")
_RANK = {severity: rank for rank, severity in enumerate(SEVERITIES)}
_PLACES = 6
"""Number of locations that `capped` lists for the findings that it leaves out."""


def run_checks(
    checks: Iterable[Callable[P, Iterable[Finding]]], /, *subject: P.args, **named: P.kwargs
) -> list[Finding]:
    """Run every check on one subject and return their findings in the order of the checks."""
    return [finding for check in checks for finding in check(*subject, **named)]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity: blockers, warnings, information. Findings of one severity keep their order."""
    return sorted(findings, key=lambda f: _RANK[f.severity])


def merged(findings: Iterable[Finding], codes: Collection[Code]) -> list[Finding]:
    """Reduce the findings of each code in `codes` to one: the first blocker, or the first finding if none blocks.

    The blocker takes the position of the code's first finding. All findings with other codes stay.
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
    """Return at most `each` findings for each code and severity.

    Where findings are left out, the message of the last returned one gives their number and first locations.
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
