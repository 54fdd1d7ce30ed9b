"""The rows of the ledger as dataclasses: verdicts, pushes, runs, jobs, spend, approvals and intents.

Fields with the same name mean the same in every row. `workspace` is the key of a workspace (`Lab.key`), `environment`
the name of its folder. `source` and `content` are the fingerprints of the environment's files (`Snapshot`). `intent` is
the key of what was published or paid for (`Intent.key` of a plan). `at` is the time of the row in seconds since the
epoch. Amounts of money are US dollars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prime_lab_mcp.lab.base.report import Finding, Verdict
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.state.outcome import Facts
from prime_lab_mcp.lab.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Evidence:
    """One verdict of a tool, and the facts under which the verdict holds.

    `platform` is set only if the verdict depends on an answer of that platform. `arguments` are those of the call, and
    `env_args` those with which the environment was loaded. `toolchain` holds versions of programs and distributions.
    `results_sha256` is the hash of the results file that was judged.
    """

    tool: str
    status: Verdict
    workspace: str
    environment: str | None = None
    source: str | None = None
    content: str | None = None
    config_sha256: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    platform: Platform | None = None
    model: str | None = None
    endpoint_host: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    harness: str | None = None
    runtime: str | None = None
    env_args: Mapping[str, Any] = field(default_factory=dict)
    toolchain: Mapping[str, Any] = field(default_factory=dict)
    findings: Sequence[Mapping[str, Any]] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    results_sha256: str | None = None
    at: float = 0.0
    id: int = 0

    @property
    def blockers(self) -> tuple[str, ...]:
        return tuple(f["code"] for f in self.findings if f.get("severity") == "blocker")


LATE_COLUMNS = ("toolchain", "findings", "data")
"""The columns of a verdict that take kilobytes. A query of many verdicts reads none of them."""


class StoredEvidence(Evidence):
    """A verdict in the ledger. A column of `LATE_COLUMNS` is read from the file when it is first used."""

    __slots__ = ("_read_column",)
    _read_column: Callable[[int, str], Any]

    @classmethod
    def from_row(cls, row: Mapping[str, Any], read_column: Callable[[int, str], Any]) -> StoredEvidence:
        """`row` has the other columns. `read_column` returns a column of the row with an id."""
        evidence = object.__new__(cls)
        for name, value in (*row.items(), ("_read_column", read_column)):
            object.__setattr__(evidence, name, value)
        return evidence

    def __getattr__(self, name: str) -> Any:
        if name not in LATE_COLUMNS:
            raise AttributeError(name)
        value = self._read_column(self.id, name)
        object.__setattr__(self, name, value)
        return value


@dataclass(frozen=True, slots=True)
class Push:
    """A published version. `verified` is `hub` if the Hub confirmed the version, `sent` if it was only sent."""

    workspace: str
    environment: str
    owner: str
    name: str
    version: str
    source: str
    content: str
    cli_hash: str
    platform: Platform
    hub_hash: str | None = None
    api: str | None = None
    verified: Literal["hub", "sent"] = "sent"
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """A training run or hosted evaluation that was started from this machine."""

    id: str
    kind: Literal["training", "hosted-eval"]
    name: str
    workspace: str
    intent: str
    platform: Platform
    config_path: str | None = None
    config_sha256: str | None = None
    price_per_hour: float | None = None
    max_cost: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0


JobState = Literal["starting", "running", "finished", "stopped", "crashed"]


@dataclass(frozen=True, slots=True)
class Job:
    """An evaluation with a supervisor process on this machine. The rollouts run here, or on the platform if hosted.

    `lease` and `deadline` are seconds since the epoch; an expired lease means a crash. `spec` is what was asked for
    (`EvalSpec`). `judged` is True once the verdict on the results is in the ledger.
    """

    id: str
    workspace: str
    environment: str
    source: str
    content: str
    intent: str
    state: JobState
    pid: int | None
    lease: float
    deadline: float
    platform: Platform | None
    spec: Mapping[str, Any]
    progress: Mapping[str, Any] = field(default_factory=dict)
    judged: bool = False
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The fields of a job that decide how long its folder and its snapshot are retained."""

    id: str
    state: JobState
    lease: float
    content: str
    judged: bool


@dataclass(frozen=True, slots=True)
class SpendRow:
    """US dollars of one intent. `amount` counts against the cap: the actual cost once known, before that the bound.
    `bound` is None if the price was unknown, and in rows that are older than schema version 3."""

    intent: str
    amount: float
    what: str
    platform: Platform
    asked: bool | None = None
    bound: float | None = None
    actual: float | None = None
    workspace: str | None = None
    environment: str | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Approval:
    """A confirmation token. `approved_at` is None until a person approves the token in a terminal."""

    token: str
    intent: str
    question: str
    max_cost: float | None
    platform: Platform
    approved_at: float | None
    at: float


@dataclass(frozen=True, slots=True)
class IntentState:
    """The state of an intent.

    `open`: may be sent. `sent`: the outcome is unknown. `done`: `result` holds the outcome. `attempt` counts the claims
    of the intent, from 1. `mine` is True if this process holds the claim.
    """

    state: Literal["sent", "done", "open"]
    attempt: int
    mine: bool
    result: Mapping[str, Any]
    at: float
    holder: str = ""
    """The holder of the claim (base/process.py, `new_holder`)."""
    key: str = ""
    kind: str = ""


def evidence_from(
    tool: str,
    status: Verdict,
    workspace: str,
    snapshot: Snapshot | None,
    findings: Sequence[Finding],
    facts: Facts,
    platform: Platform,
    arguments: Mapping[str, Any],
    data: Mapping[str, Any],
) -> Evidence:
    """Build the ledger row for a verdict about a snapshot or a config file."""
    return Evidence(
        tool=tool,
        status=status,
        workspace=workspace,
        environment=snapshot.name if snapshot else None,
        source=snapshot.source if snapshot else None,
        content=snapshot.content if snapshot else None,
        config_sha256=facts.config_sha256,
        arguments=dict(arguments),
        platform=platform if facts.touches_platform else None,
        model=facts.model,
        endpoint_host=facts.endpoint_host,
        sampling=dict(facts.sampling),
        harness=facts.harness,
        runtime=facts.runtime,
        env_args=dict(facts.env_args),
        toolchain=dict(facts.toolchain),
        findings=[f.as_json() | {"rows": []} for f in findings],
        data=dict(data),
        results_sha256=facts.results_sha256,
    )
