"""Defines `Outcome`, the result of a tool body, and `Facts`, the conditions of its verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from prime_lab_mcp.lab.base.report import Finding, Json, Link, Next, Picture, Verdict
from prime_lab_mcp.lab.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Facts:
    """Conditions of a verdict besides the files: model, sampling, arguments, versions. Recorded with the verdict."""

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
    """True if the verdict depends on an answer of the platform. It then counts for that platform only."""
    proves: bool = True
    """False if the verdict is no evidence: results of unknown origin, or a trial with other settings."""
    unreported: Json = field(default_factory=dict)
    """Data for other tools that is too long for a report. The ledger records it, and no report shows it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a tool body. A failed or inconclusive outcome has at least one blocker."""

    status: Verdict
    summary: str
    findings: tuple[Finding, ...] = ()
    data: Json = field(default_factory=dict)
    next: tuple[Next, ...] = ()
    links: tuple[Link, ...] = ()
    pictures: tuple[Picture, ...] = ()
    facts: Facts = field(default_factory=Facts)
    snapshot: Snapshot | None = None
    """The subject of the verdict if it is not the snapshot of the call, for instance after a push raised the
    version."""

    @property
    def blockers(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "blocker")
