"""The report that every tool call returns, and its parts.

The fields of `Report` are a public interface. A flaw in the user's material is a `Finding`; an operation that could
not be carried out is a `LabError` (errors.py), which reaches the agent as a report too. A tool body itself returns an
`Outcome` (lab/state/outcome.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.base.codes import Code

Status = Literal["passed", "failed", "inconclusive", "running", "blocked", "needs_confirmation", "error"]
Verdict = Literal["passed", "failed", "inconclusive", "running"]
Severity = Literal["blocker", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("blocker", "warning", "info")
"""Worst first."""
Why = Literal["never-run", "failed", "inconclusive", "stale", "rehearsal", "model"]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One flaw in, or fact about, the user's material. `code` is stable and kebab-case."""

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
            "fix": self.fix,
        }
        if self.where:
            result["where"] = self.where
        if self.rows:
            result["rows"] = [dict(row) for row in self.rows]
        return result


@dataclass(frozen=True, slots=True)
class Unmet:
    """One piece of evidence that a gate requires and does not have. `tool` produces this evidence."""

    tool: str
    why: Why
    detail: str
    arguments: Json | None = None
    """Arguments of the call that proves it, where they are known."""

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
    """Not part of the JSON: the server sends them as images, and the terminal prints their file names."""

    @property
    def is_error(self) -> bool:
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
