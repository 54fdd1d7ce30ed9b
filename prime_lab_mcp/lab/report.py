"""The vocabulary of results: what a tool concludes (`Outcome`) and what a caller sees (`Report`).

A flaw in the user's material is a `Finding`; a failure of machinery is a `LabError` (errors.py). Both reach the
agent as a `Report`, whose fields are public (DESIGN section 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from prime_lab_mcp.lab.snapshot import Snapshot

Status = Literal["passed", "failed", "inconclusive", "running", "blocked", "needs_confirmation", "error"]
Verdict = Literal["passed", "failed", "inconclusive", "running"]
Severity = Literal["blocker", "warning", "info"]
Why = Literal["never-run", "failed", "inconclusive", "stale", "rehearsal", "model"]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One flaw or fact about the user's material; `code` is stable and kebab-case."""

    code: str
    severity: Severity
    message: str
    fix: str
    where: str | None = None
    rows: tuple[Json, ...] = ()

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "fix": self.fix,
        }
        if self.where:
            shown["where"] = self.where
        if self.rows:
            shown["rows"] = [dict(row) for row in self.rows]
        return shown


@dataclass(frozen=True, slots=True)
class Unmet:
    """One piece of evidence a gate misses: `tool` is what produces it."""

    tool: str
    why: Why
    detail: str

    def as_json(self) -> dict[str, Any]:
        return {"tool": self.tool, "why": self.why, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Next:
    """The call that brings the caller further, and why."""

    tool: str
    why: str
    arguments: Json | None = None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"tool": self.tool, "why": self.why}
        if self.arguments:
            shown["arguments"] = dict(self.arguments)
        return shown


@dataclass(frozen=True, slots=True)
class Link:
    """A resource (`lab://...`) or page that holds more than the report shows."""

    uri: str
    title: str

    def as_json(self) -> dict[str, Any]:
        return {"uri": self.uri, "title": self.title}


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that a result carries beside its report: a file of ours, and what it shows."""

    path: Path
    title: str
    media_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a verdict rests on beside the snapshot: recorded with it, compared by the gates."""

    model: str | None = None
    endpoint_host: str | None = None
    sampling: Json = field(default_factory=dict)
    harness: str | None = None
    runtime: str | None = None
    env_args: Json = field(default_factory=dict)
    toolchain: Json = field(default_factory=dict)
    results_sha256: str | None = None
    config_sha256: str | None = None
    touches_platform: bool = False
    """True when the verdict rests on an answer of the platform; it then counts for that platform only."""
    proves: bool = True
    """False when the verdict is shown but is no evidence (results of unknown origin, a trial with other settings)."""
    kept: Json = field(default_factory=dict)
    """Recorded beside the data and not shown: what other tools read and is too long for a report."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool body returns. A failed or inconclusive outcome carries at least one blocker."""

    status: Verdict
    summary: str
    findings: tuple[Finding, ...] = ()
    data: Json = field(default_factory=dict)
    next: tuple[Next, ...] = ()
    links: tuple[Link, ...] = ()
    pictures: tuple[Picture, ...] = ()
    facts: Facts = field(default_factory=Facts)
    snapshot: Snapshot | None = None
    """What the verdict is about, where that is not the snapshot the call opened (a push that bumped the version)."""

    @property
    def blockers(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "blocker")


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
    """Not part of the JSON: the server sends them as images, a terminal names their files."""

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
    """`failed` as soon as one finding is a blocker."""
    return "failed" if any(f.severity == "blocker" for f in findings) else "passed"
