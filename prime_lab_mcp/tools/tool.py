"""What a tool is: metadata beside one typed function. Behaviour that follows from metadata lives in server/."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.report import Finding, Outcome, Report
from prime_lab_mcp.lab.snapshot import Snapshot

Effect = Literal["reads", "executes", "writes", "publishes", "spends"]
"""reads: changes nothing. executes: runs environment code or a model. writes: changes files of the workspace.
publishes and spends: reach beyond this machine and ask first."""

EnvironmentName = Annotated[
    str, Field(min_length=1, max_length=300, description="Folder name or path in the workspace.")
]


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class References(Protocol):
    """The pages an agent can read, for `read_reference` (served by resources/)."""

    def topics(self) -> list[tuple[str, str]]: ...

    def names(self) -> list[str]: ...
    def page(self, topic: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be published or paid for: bound to the approval token, recorded before the call goes out."""

    kind: Literal["push", "submit", "control", "eval"]
    key: str
    """Identity: the same key is the same intent (snapshot, config hash, name)."""
    question: str
    """One paragraph for a person: what happens, price and cap."""
    max_cost: float | None = None
    """Upper bound in US dollars of what it commits to; None where no price is known."""
    ask: bool = True
    """False when nothing needs asking (an existing run is returned, or a cost below a dollar)."""
    findings: tuple[Finding, ...] = ()
    """What was found out on the way: shown beside the question. A blocker among them refuses the call at once."""
    cautions: tuple[str, ...] = ()
    """What a confirmation has to name; with any, `yes` does not skip the question."""


@dataclass(frozen=True, slots=True)
class Call:
    """Everything one tool body may touch."""

    lab: Lab
    snapshot: Snapshot | None
    """Of the environment named in the arguments, when the tool works on a local one."""
    progress: Callable[[float, float | None, str], Awaitable[None]]
    references: References
    prove: Callable[[str, Snapshot], Awaitable[Report]]
    """Run a free prerequisite on a snapshot made during this call, and record its verdict."""
    config: Path | None = None
    """The training config this call is about, for tools that declare `config`."""
    intent: Intent | None = None
    """What was approved, for tools that publish or spend."""
    hosted: str | None = None
    """The environment as it was named, for calls that run it on the platform (`Tool.hosted`)."""

    @property
    def environment(self) -> Snapshot:
        """The snapshot of a tool that always works on one."""
        if self.snapshot is None:
            raise RuntimeError("this tool declares no environment")
        return self.snapshot


@dataclass(frozen=True, slots=True)
class Tool:
    """One workflow step. `intent` is set for tools that publish or spend."""

    name: str
    title: str
    description: str
    args: type[Arguments]
    run: Callable[[Call, Any], Awaitable[Outcome]]
    effect: Effect
    snapshot: bool = False
    """Works on a snapshot of the local environment named by its `environment` argument."""
    records: Literal["environment", "config", "dataset", "preflight"] | None = None
    """What its verdict is evidence about; None: nothing is recorded."""
    config: Callable[[Call, Any], Awaitable[Path]] | None = None
    """Names (and where needed writes) the training config the call is about, before its gate is looked at."""
    intent: Callable[[Call, Any], Awaitable[Intent | None]] | None = None
    hosted: Callable[[Any], bool] | None = None
    """True for calls that run on the platform: they may name an environment on the Hub, and their gate is the row
    `NAME, hosted` of the table."""
    idempotent: bool = True
    open_world: bool = False
