"""Defines tools: typed functions with metadata. The server package implements the behaviour that follows from metadata.

A `Tool` has one function, `run(call, args)`. A `PlannedTool` publishes or spends, and has two: `plan(call, args)`
decides what to do and what to ask a person, and `run(call, plan)` carries out exactly that plan after approval.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding, Next, Progress, Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot

if TYPE_CHECKING:
    from prime_lab_mcp.lab.configs.config import TrainingConfig

Effect = Literal["reads", "executes", "writes", "publishes", "spends"]
"""reads: changes nothing. executes: runs environment code or a model. writes: changes files of the workspace.
publishes and spends: reach beyond this machine and ask first."""

EnvironmentName = Annotated[
    str, Field(min_length=1, max_length=300, description="Folder name or path in the workspace.")
]


class Arguments(BaseModel):
    """Base class of every tool's arguments. Unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    MEANINGFUL_WHEN_EMPTY: ClassVar[frozenset[str]] = frozenset()
    """Optional arguments whose empty text differs from leaving them out."""
    ONE_OF: ClassVar[tuple[str, ...]] = ()
    """Arguments of which a call names at least one, although the schema has each as optional; empty for most tools."""

    @classmethod
    def alternatives(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call that are among those of which it names at least one."""
        return {name: given[name] for name in cls.ONE_OF if given.get(name)}

    @classmethod
    def lacks_alternatives(cls, given: Mapping[str, Any]) -> bool:
        """Whether a call names none of the arguments of which it names at least one."""
        return bool(cls.ONE_OF) and not cls.alternatives(given)


class ReferencePages(Protocol):
    """The pages that an agent can read with `read_reference` (resources/catalog.py implements it)."""

    def topics(self) -> list[tuple[str, str]]: ...

    def names(self) -> list[str]: ...
    def page(self, topic: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be published or paid for.

    The approval token is bound to it, and it is recorded before sending.
    """

    kind: Literal["push", "submit", "control", "eval"]
    key: str
    """Identity of the intent, made of snapshot, config hash and name."""
    question: str
    """One paragraph for a person: what happens, the price and the cap."""
    max_cost: float | None = None
    """Upper bound of the cost in US dollars; None if no price is known."""
    ask: bool = True
    """False if no approval is needed: an existing run is returned, or the cost is below a dollar."""
    findings: tuple[Finding, ...] = ()
    """Findings of the plan, shown with the question. A blocker refuses the call at once."""
    cautions: tuple[str, ...] = ()
    """Cautions that a confirmation must name. With any caution, `yes` does not skip the question."""
    instead: tuple[Next, ...] = ()
    """What to call once the user has declined: calls that change what was asked about."""
    file: str = ""
    """The whole file that would be sent, shown below the question and in the report that asks."""


A = TypeVar("A", bound=Arguments)
"""The arguments of a tool."""
W = TypeVar("W")
"""The work of a plan. Each planned tool has its own type."""


@dataclass(frozen=True, slots=True)
class Plan(Generic[W]):
    """What one call will do.

    The call path may keep a plan until a question is answered. A plan therefore holds only values: nothing of the call
    that made it, and nothing that must be closed.
    """

    work: W
    """Everything that `run` needs. `run` asks again only for facts that must be fresh at the moment of sending."""
    intent: Intent | None = None
    """What to ask a person; None if the call neither publishes nor pays."""


@dataclass(frozen=True, slots=True)
class Call:
    """Everything that a tool body may use during one call."""

    lab: Lab
    snapshot: Snapshot | None
    """Snapshot of the environment in the arguments, if the tool works on a local environment."""
    progress: Progress
    references: ReferencePages
    prove: Callable[[str, Snapshot], Awaitable[Report]]
    """Runs a free prerequisite on a snapshot that was taken during this call, and records its verdict."""
    platform: PlatformReader | None = None
    """Answers of the platform that the steps of this call share; None: each step asks the platform itself."""
    config: Path | None = None
    """The training config of this call, for tools that declare `config`."""
    config_sha256: str | None = None
    """Hash of that file when the call began. Whoever reads the file requires this hash (`training_config`)."""
    env_args: Mapping[str, Any] | None = None
    """The arguments of the environment that the call names; None if it names none."""
    resume_from: str | None = None
    """Id of the training run whose checkpoint the call continues from."""
    continues: str | None = None
    """Id of the training run that the call lets go on spending (`ToolBase.continues`)."""
    hosted: str | None = None
    """The name of an environment on the Hub, for calls that run on the platform (`ToolBase.hosted`)."""

    def training_config(self) -> TrainingConfig:
        """The config of this call. Raises LabError if the file is another one than when the call began."""
        if self.config is None:
            raise RuntimeError("this tool declares no config")
        from prime_lab_mcp.lab.configs.config import read_config

        config = read_config(self.config)
        if self.config_sha256 is not None and config.sha256 != self.config_sha256:
            raise LabError(
                f"{self.config.name} changed while it was looked at; nothing was sent",
                fix="Call again when the file is still.",
                code="intent-changed",
            )
        return config

    @property
    def environment(self) -> Snapshot:
        """The snapshot, for a tool that always works on one."""
        if self.snapshot is None:
            raise RuntimeError("this tool declares no environment")
        return self.snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBase(Generic[A]):
    """The metadata that both kinds of tools have."""

    name: str
    title: str
    description: str
    args: type[A]
    effect: Effect
    runs_environment_code: bool = False
    """True if the tool runs environment code on this machine. Its reports then say where the kernel does not confine
    that code."""
    snapshot: bool = False
    """True if the tool works on a snapshot of the local environment named by its `environment` argument."""
    records: Literal["environment", "config", "dataset", "preflight"] | None = None
    """The subject of the tool's verdict as evidence; None: no evidence is recorded."""
    config: Callable[[Call, A], Awaitable[Path]] | None = None
    """Returns the training config of the call, and writes it if needed, before the gate is checked."""
    hosted: Callable[[A], bool] | None = None
    """True for calls that run on the platform. They may name an environment on the Hub, and their gate is the row
    `NAME, hosted` of the table."""
    continues: Callable[[A], str | None] | None = None
    """Returns the id of the training run that goes on spending with this call; None if none does. What the run was
    submitted with is then proven again."""
    needs_verdicts: bool = False
    """True if the call decides by the verdicts on finished evaluations, which are then confirmed before its gate. A
    tool that works on one evaluation waits for that one itself."""
    idempotent: bool = True
    open_world: bool = False
    page: bool = False
    """True if a client that renders MCP Apps shows the page beside a result of the tool (dashboard/mcp_app.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(ToolBase[A]):
    """A tool that needs no approval."""

    run: Callable[[Call, A], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTool(ToolBase[A], Generic[A, W]):
    """A tool that publishes or spends, at least with some arguments."""

    plan: Callable[[Call, A], Awaitable[Plan[W]]]
    run: Callable[[Call, Plan[W]], Awaitable[Outcome]]


AnyTool = Tool[Any] | PlannedTool[Any, Any]
