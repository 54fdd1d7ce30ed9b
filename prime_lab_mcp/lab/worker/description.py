"""The description of a loaded environment by its worker, as values: rewards, judges, tasks, arguments and agents.

A reply comes from a process that runs foreign code. Decoding raises the error `worker-nonsense` for a reply that breaks
the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.worker.child.protocol import FactsReply, JudgeReply, LoadReply, RowsReply
from prime_lab_mcp.lab.worker.faults import nonsense

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RewardInfo:
    """One scoring function. Metrics are recorded and not summed; a group reward gets all rollouts of a task."""

    name: str
    weight: float
    kind: Literal["reward", "metric", "group"]
    is_async: bool


@dataclass(frozen=True, slots=True)
class JudgeInfo:
    """A model that rewards ask, from a configuration or from an observed request. All fields are foreign text.

    `model` is empty and `temperature` None where a request does not state them; `host` is the host of the endpoint.
    """

    name: str
    model: str
    temperature: float | None
    host: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded environment. `tasks` is None where there are infinitely or too many to count (200,000 or 20 seconds)."""

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
    """A rollout may have more than one reply: tools, answers of the environment, or a set-up."""
    own_run: bool = False
    """The environment's own `Env` plays or ends the rollout (v1), so that prompts and rewards may come from there."""
    solutions: bool = False
    """The environment states how its tasks are solved (worker/child/solutions.py)."""
    task_class: str = ""
    """Class name of the tasks (v1)."""
    judges: tuple[JudgeInfo, ...] = ()
    """Judges in configs (v1) and rubrics (v0); a reward may ask others."""


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
    """A sample of tasks, in task order. `total` is None where the number of tasks is not known."""

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
    """The environment's own `Env` or harness states this; otherwise it is the default of verifiers."""


@dataclass(frozen=True, slots=True)
class Lossy:
    """A task that changes when it is sent between trainer and env server."""

    row: int
    field: str
    why: str


@dataclass(frozen=True, slots=True)
class ParserUse:
    """A v0 reward function with a `parser` argument: the classes of the passed and of the environment's parser."""

    function: str
    given: str
    environment: str


@dataclass(frozen=True, slots=True)
class ArgumentEffect:
    """Whether two values of an argument gave the same tasks. Equal values are two loads with the same arguments."""

    argument: str
    values: tuple[str, str]
    same: bool


@dataclass(frozen=True, slots=True)
class Traits:
    """The description of a loaded environment beyond its rewards and rows. All names are foreign text."""

    args: tuple[Arg, ...] = ()
    held_out: str | None = None
    """The split that is not loaded: `FIELD=VALUE` of the config (v1) or `eval_dataset` (v0)."""
    excluded: tuple[str, ...] = ()
    """Fields of the task data that serialisation leaves out."""
    declared_task: str = ""
    other_tasks: tuple[str, ...] = ()
    """Classes of tasks that `load()` yields and the taskset does not declare."""
    tried: int = 0
    lossy: tuple[Lossy, ...] = ()
    lossy_total: int = 0
    roles: tuple[Role, ...] | None = None
    sent_tasks: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    """A few tasks with their data as sent to an env server."""
    generator: tuple[ArgumentEffect, ...] = ()
    """What seed and level change, where the taskset has such arguments (v1)."""
    shapes: Mapping[str, Any] = field(default_factory=dict)
    """JSON schemas of the tables `taskset` and `env` of a training config, and whether there are `tools`."""
    parsers: tuple[ParserUse, ...] = ()
    port: Mapping[str, Any] = field(default_factory=dict)
    """What a port to v1 needs (v0), undecoded: `lab/authoring/port/description.py` reads it."""


def decode_loaded(reply: LoadReply, api: Api, versions: Mapping[str, Any]) -> Loaded:
    """Decode a `load` reply. Raises WorkerError for anything but a valid reply."""
    try:
        return Loaded(
            api=api,
            kind=str(reply["kind"]),
            tasks=None if reply["tasks"] is None else int(reply["tasks"]),
            infinite=bool(reply["infinite"]),
            rewards=tuple(
                RewardInfo(str(r["name"]), float(r["weight"] or 0.0), r["kind"], bool(r["is_async"]))
                for r in reply["rewards"]
            ),
            fields=tuple(map(str, reply["fields"])),
            system_prompt=reply["system_prompt"],
            verifiers_version=str(versions.get("verifiers")),
            python_version=str(versions.get("python")),
            seconds=float(reply["seconds"]),
            shadowed_by=reply.get("shadowed_by"),
            turns=bool(reply.get("turns", False)),
            own_run=bool(reply.get("own_run", False)),
            solutions=bool(reply.get("solutions", False)),
            task_class=str(reply.get("task_class", "")),
            judges=decode_judges(reply["judges"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("load", reply) from error


def decode_traits(reply: FactsReply) -> Traits:
    """Decode a `facts` reply. Raises WorkerError for anything but a valid reply."""
    try:
        roles = reply.get("roles")
        return Traits(
            args=tuple(
                Arg(str(a["name"]), str(a["type"]), a["default"], bool(a["required"]), tuple(a["choices"]))
                for a in reply["args"]
            ),
            held_out=reply.get("held_out"),
            excluded=tuple(map(str, reply.get("excluded", ()))),
            declared_task=str(reply.get("declared_task", "")),
            other_tasks=tuple(map(str, reply.get("other_tasks", ()))),
            tried=int(reply.get("tried", 0)),
            lossy=tuple(Lossy(int(x["row"]), str(x["field"]), str(x["why"])) for x in reply.get("lossy", ())),
            lossy_total=int(reply.get("lossy_total", 0)),
            roles=None
            if roles is None
            else tuple(Role(str(r["name"]), str(r["harness"]), str(r["runtime"]), bool(r["own"])) for r in roles),
            shapes=dict(reply.get("shapes") or {}),
            port=dict(reply.get("port") or {}),
            generator=tuple(
                ArgumentEffect(str(g["argument"]), (str(g["values"][0]), str(g["values"][1])), bool(g["same"]))
                for g in reply.get("generator", ())
            ),
            sent_tasks=tuple((int(t["row"]), dict(t["data"])) for t in reply.get("sent_tasks", ())),
            parsers=tuple(
                ParserUse(str(p["function"]), str(p["given"]), str(p["environment"])) for p in reply.get("parsers", ())
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("facts", reply) from error


def decode_rows(reply: RowsReply) -> Rows:
    """Decode a `rows` reply. Raises WorkerError for anything but a valid reply."""
    try:
        rows = tuple(
            Row(int(r["index"]), str(r["key"]), tuple(r["prompt"]), r["answer"], r["info"], dict(r["fields"]))
            for r in reply["rows"]
        )
        return Rows(rows, None if reply["total"] is None else int(reply["total"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("rows", reply) from error


def decode_judges(reply: Sequence[JudgeReply]) -> tuple[JudgeInfo, ...]:
    """Decode the judges that the worker found in an environment. Raises KeyError, TypeError or ValueError if a field is
    missing or of another type.
    """
    return tuple(
        JudgeInfo(str(j["name"]), str(j["model"]), optional_float(j["temperature"]), str(j["host"])) for j in reply
    )


def optional_float(value: Any) -> float | None:
    """The number of a reply, or None. Raises TypeError or ValueError for anything else."""
    return None if value is None else float(value)
