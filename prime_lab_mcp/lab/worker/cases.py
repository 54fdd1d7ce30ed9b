"""What goes to a worker and what comes back, as values.

Apart from the host because tools and checks use these types without ever starting a process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.text import quote

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RewardInfo:
    """One scoring function. Metrics are recorded and not summed; a group reward sees all rollouts of a task."""

    name: str
    weight: float
    kind: Literal["reward", "metric", "group"]
    is_async: bool


@dataclass(frozen=True, slots=True)
class JudgeInfo:
    """A model that rewards ask: as configured, or as it was asked. All texts are foreign.

    `model` is empty and `temperature` None where a request does not state it; `host` is that of the endpoint.
    """

    name: str
    model: str
    temperature: float | None
    host: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded environment. `tasks` is None where they are infinite or too many to count (200,000 or 20 seconds)."""

    api: Api
    kind: str
    """Class name of the taskset (v1) or environment (v0)."""
    tasks: int | None
    infinite: bool
    rewards: tuple[RewardInfo, ...]
    fields: tuple[str, ...]
    system_prompt: str | None
    verifiers_version: str
    python_version: str
    seconds: float
    shadowed_by: str | None = None
    """A built-in taskset of verifiers with the same name: `vf-eval` would load that one instead (v1)."""
    turns: bool = False
    """More can happen in a rollout than one reply: tools, answers of the environment, set-up."""
    judges: tuple[JudgeInfo, ...] = ()
    """Judges in the configs (v1) and rubrics (v0); a reward may ask others."""


@dataclass(frozen=True, slots=True)
class Row:
    """One task. `index` is its position in the taskset, `key` a hash that changes with its content."""

    index: int
    key: str
    prompt: tuple[Message, ...]
    answer: Any
    info: Any
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """A sample of tasks, in task order. `total` is None where it is not known."""

    rows: tuple[Row, ...]
    total: int | None


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument: a field of the taskset's config (v1; `task.NAME`: of its task config), or a parameter (v0)."""

    name: str
    type: str
    default: Any
    required: bool
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Role:
    """An agent of a v1 environment, with the harness and runtime it gets when a run names none."""

    name: str
    harness: str
    runtime: str
    own: bool = False
    """The environment exports the `Env` or harness that says so; else it is verifiers' default."""


@dataclass(frozen=True, slots=True)
class Lossy:
    """A task that does not come back equal from the wire between trainer and env server."""

    row: int
    field: str
    why: str


@dataclass(frozen=True, slots=True)
class ParserUse:
    """A v0 reward function that takes `parser`: the class it is given, and the class the environment has."""

    function: str
    given: str
    environment: str


@dataclass(frozen=True, slots=True)
class Traits:
    """What a loaded environment tells about itself beyond its rewards and rows. All names are foreign text."""

    args: tuple[Arg, ...] = ()
    held_out: str | None = None
    """The split that is not loaded: `FIELD=VALUE` of the config (v1) or `eval_dataset` (v0)."""
    excluded: tuple[str, ...] = ()
    """Fields of the task data that serialisation leaves out."""
    declared_task: str = ""
    other_tasks: tuple[str, ...] = ()
    """Classes of tasks that `load()` yields beside the one that the taskset declares."""
    tried: int = 0
    lossy: tuple[Lossy, ...] = ()
    lossy_total: int = 0
    roles: tuple[Role, ...] | None = None
    wire: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    """A few tasks with their data as it is sent."""
    shapes: Mapping[str, Any] = field(default_factory=dict)
    """JSON schemas of the tables that a training config may give it: `taskset`, `env`; and whether it has `tools`."""
    parsers: tuple[ParserUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A completion to be scored for one task: `messages` are what the model and its tools said; empty: no reply.

    `company` are other completions of the task that a group reward sees beside it.
    """

    id: str
    row: int
    messages: Sequence[Message]
    company: Sequence[Sequence[Message]] = ()


@dataclass(frozen=True, slots=True)
class Component:
    score: float | None
    """None: not computed, or not finite."""
    weight: float


@dataclass(frozen=True, slots=True)
class CaseError:
    """What a scoring function raised. All of it is foreign text."""

    type: str
    message: str
    where: str


DEEDS = frozenset({"evaluated-output", "opened-network", "wrote-files", "reused-file", "left-processes"})
"""Problems that tell what scoring did beside returning a number (audit.py): the number stands. A host or path may
follow after a colon; it is foreign text."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One scored case. `reward` is None when it was not computed as the environment would, or is not finite.

    `problems` are codes: nonfinite, not-a-float:TYPE, sync-reward, sync-metric, swallowed, group-reward,
    needs-container, no-such-row, task-changed, timeout, exited, flood, memory, nonsense, not-run; those of `DEEDS`;
    judge-unreachable and judge-unread (it raised after a judge had answered): then `reward` is None, whatever the
    environment made of it.
    """

    id: str
    reward: float | None
    components: Mapping[str, Component] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    errors: tuple[CaseError, ...] = ()
    problems: tuple[str, ...] = ()
    ms: float = 0.0
    judges: tuple[JudgeInfo, ...] = ()
    """Models that were asked."""
    members: tuple[Scored, ...] = ()
    """Of stored rollouts that were scored together: each of them."""

    @property
    def broken(self) -> bool:
        """Something went wrong, so that the number says nothing."""
        return bool(self.errors) or any(p.partition(":")[0] not in DEEDS for p in self.problems)


@dataclass(frozen=True, slots=True)
class Manner:
    """How one scoring behaved beside what it paid.

    `together` is what it earned among others in one event loop; None where it was not tried there. `mutated` names the
    inputs that it changed. `blocked_ms`: the longest time that no other task of the loop had its turn.
    """

    id: str
    alone: float | None
    together: tuple[float | None] | None = None
    mutated: tuple[str, ...] = ()
    blocked_ms: float = 0.0


_CREDENTIAL = re.compile(r"api_key|_KEY\b|_TOKEN\b|MissingKeyError|GatedRepo|\b401\b", re.I)
_WITHOUT_CREDENTIAL = (
    "Read the credential only when it is used; if loading needs it, a person restarts the server with --allow-env NAME."
)


class LoadFailed(LabError):
    """The environment's own code raised while it was imported or loaded: a flaw of the environment.

    `type`, `reason` and `traceback` are foreign text; the message quotes them.
    """

    default_code = "environment-load-failed"

    def __init__(self, type: str, reason: str, traceback: str, where: str, doing: str = "loading") -> None:
        place = f" at {where}" if where else ""
        secret = _CREDENTIAL.search(f"{type} {reason}")
        super().__init__(
            f"the environment's code raised {type}{place} while {doing}: {quote(reason)}",
            fix=_WITHOUT_CREDENTIAL if secret else "Mend the code that raises, then call check_environment.",
            where=where or None,
        )
        self.type = type
        self.reason = reason
        self.lacks_openai_key = type == "OpenAIError" and "OPENAI_API_KEY" in reason
        """A client of the openai library was made without a key, as JudgeRubric does."""
        self.traceback = traceback
