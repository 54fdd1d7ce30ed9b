"""The description of a loaded environment that its worker sends: rewards, judges, tasks, arguments and agents.

The worker runs environment code, which could write replies itself. Decoding a reply that breaks the protocol raises
WorkerError with the code `worker-nonsense`. "Foreign text" in these docstrings is text from the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.worker.child.protocol import FactsReply, JudgeReply, LoadReply, RowsReply
from prime_lab_mcp.lab.worker.faults import nonsense

Message = Mapping[str, Any]


SAMPLED_TASKS = 2000
"""Most tasks of an environment that a check inspects. A larger taskset is sampled with a seed."""


@dataclass(frozen=True, slots=True)
class RewardInfo:
    """One reward function or metric.

    Metrics do not count towards the reward. A group reward gets all rollouts of a task.
    """

    name: str
    weight: float
    kind: Literal["reward", "metric", "group"]
    is_async: bool


@dataclass(frozen=True, slots=True)
class JudgeInfo:
    """A judge: a model that a reward asks. It is known from a config or from an observed request.

    All fields are foreign text. `model` is empty and `temperature` is None if they are not stated. `host` is the host
    of the judge's endpoint.
    """

    name: str
    model: str
    temperature: float | None
    host: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded environment.

    `tasks` is the number of tasks. It is None for an infinite taskset, and if counting would exceed 200,000 tasks or 20
    seconds. `fields` are the task's own fields (v1) or the columns of the dataset (v0). `seconds` is the time that
    loading took.
    """

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
    """The built-in taskset of verifiers with the same name, which `vf-eval` would load instead (v1)."""
    turns: bool = False
    """Whether a rollout can be more than one reply, because of tools, answers of the environment, or set-up hooks."""
    own_run: bool = False
    """Whether the package's own `Env` class runs or finalises rollouts (v1). It may then set prompts and rewards."""
    container: bool = False
    """Whether the tasks need a container: they name an image, or their class says so (v1)."""
    solutions: bool = False
    """Whether the environment states reference solutions of its tasks (worker/child/solutions.py)."""
    task_class: str = ""
    """Class name of the tasks (v1)."""
    judges: tuple[JudgeInfo, ...] = ()
    """Judges in configs (v1) and in judge rubrics (v0). A reward may ask further judges."""


@dataclass(frozen=True, slots=True)
class Row:
    """One task. `index` is its position in the taskset, and `key` is a hash of its content."""

    index: int
    key: str
    prompt: tuple[Message, ...]
    answer: Any
    info: Any
    fields: Mapping[str, Any]
    group: str | None = None
    """The column `task` of v0, which rewards may ask for; None where the rows have none of their own."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A sample of tasks in task order. `total` is the number of all tasks; None if unknown."""

    rows: tuple[Row, ...]
    total: int | None


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of an environment.

    In v1, it is a field of the taskset's config, or `task.NAME` for a field of the task config. In v0, it is a
    parameter of `load_environment`. `choices` are the values of a Literal.
    """

    name: str
    type: str
    default: Any
    required: bool
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Role:
    """An agent of a v1 environment with its default harness and runtime."""

    name: str
    harness: str
    runtime: str
    own: bool = False
    """Whether the package has an `Env` or harness of its own. Otherwise harness and runtime are verifiers' defaults."""


@dataclass(frozen=True, slots=True)
class Lossy:
    """A task that changes when it is sent from the trainer to the env server: its row, the field, and the change."""

    row: int
    field: str
    why: str


@dataclass(frozen=True, slots=True)
class ParserUse:
    """A v0 reward function with a `parser` argument.

    `given` is the class of the rubric's parser, which the function gets; `environment` is the class of the
    environment's parser.
    """

    function: str
    given: str
    environment: str


@dataclass(frozen=True, slots=True)
class ArgumentEffect:
    """Whether two values of an argument give the same tasks. If both values are equal, loading was repeated.

    `marked` tasks are the same but for the value itself, which their data carry.
    """

    argument: str
    values: tuple[str, str]
    same: bool
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Traits:
    """The description of a loaded environment beyond its rewards and rows. All names are foreign text.

    `declared_task` is the class of tasks that the taskset declares, and `tried` the number of tasks that were
    serialised and rebuilt. `lossy` are examples of tasks that changed thereby, and `lossy_total` is their number.
    """

    args: tuple[Arg, ...] = ()
    held_out: str | None = None
    """The split that is not loaded: `FIELD=VALUE` of the config (v1) or `eval_dataset` (v0)."""
    excluded: tuple[str, ...] = ()
    """Fields of the task data that serialisation leaves out."""
    declared_task: str = ""
    other_tasks: tuple[str, ...] = ()
    """Classes of tasks that `load()` yields although the taskset does not declare them."""
    tried: int = 0
    lossy: tuple[Lossy, ...] = ()
    lossy_total: int = 0
    roles: tuple[Role, ...] | None = None
    sent_tasks: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    """Rows of a few tasks, each with its data as the trainer sends it to the env server."""
    generator: tuple[ArgumentEffect, ...] = ()
    """The effects of the arguments for seed and level on the tasks, if the taskset has such arguments (v1)."""
    shapes: Mapping[str, Any] = field(default_factory=dict)
    """JSON schemas of the tables `taskset` and `env` of a training config, and whether the model gets `tools` (v1)."""
    parsers: tuple[ParserUse, ...] = ()
    port: Mapping[str, Any] = field(default_factory=dict)
    """The undecoded description for a port to v1 (v0). `lab/authoring/port/description.py` decodes it."""


def decode_loaded(reply: LoadReply, api: Api, versions: Mapping[str, Any]) -> Loaded:
    """Decode the reply to a `load` request. Raises WorkerError if it is invalid."""
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
            container=bool(reply.get("container", False)),
            solutions=bool(reply.get("solutions", False)),
            task_class=str(reply.get("task_class", "")),
            judges=decode_judges(reply["judges"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("load", reply) from error


def decode_traits(reply: FactsReply) -> Traits:
    """Decode the reply to a `facts` request. Raises WorkerError if it is invalid."""
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
                ArgumentEffect(
                    str(g["argument"]),
                    (str(g["values"][0]), str(g["values"][1])),
                    bool(g["same"]),
                    bool(g.get("marked")),
                )
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
    """Decode the reply to a `rows` request. Raises WorkerError if it is invalid."""
    try:
        rows = tuple(
            Row(
                int(r["index"]),
                str(r["key"]),
                tuple(r["prompt"]),
                r["answer"],
                r["info"],
                dict(r["fields"]),
                str(r["group"]) if "group" in r else None,
            )
            for r in reply["rows"]
        )
        return Rows(rows, None if reply["total"] is None else int(reply["total"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("rows", reply) from error


def decode_judges(reply: Sequence[JudgeReply]) -> tuple[JudgeInfo, ...]:
    """Decode the judges of a reply.

    Raises KeyError, TypeError or ValueError if a field is missing or has another type.
    """
    return tuple(
        JudgeInfo(str(j["name"]), str(j["model"]), optional_float(j["temperature"]), str(j["host"])) for j in reply
    )


def optional_float(value: Any) -> float | None:
    """Convert a number of a reply to float; None stays None. Raises TypeError or ValueError for other values."""
    return None if value is None else float(value)
