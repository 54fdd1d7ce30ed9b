"""The adapter for v1 environments (`verifiers.v1`, 0.3 and newer), which have a Taskset and score traces.

`Task.score` computes the rewards, as in evaluation and training. `score` converts returned values and stops at the
first exception, so this module wraps the reward and metric hooks in order to observe what they really return.

The adapter also checks that tasks survive serialisation. In training, the env server never calls `load()`. The trainer
sends `TaskData` as JSON data in msgpack, and the env server rebuilds each task as
`TaskT(DataT.model_validate(...), config.task)` (verifiers 0.4.0, serve/server.py).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import math
import random
import time
from collections.abc import Awaitable, Iterator
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from . import (
    coercion,
    config_v1,
    judges,
    observer,
    scoring_v1,
    scripted_rollouts_v1,
    side_effects,
)
from .adapter import Adapter
from .observer import CaughtExceptions, Observation
from .protocol import (
    CaseRequest,
    EnvironmentRequest,
    FactsReply,
    LoadReply,
    LoadRequest,
    LossyReply,
    RescoreRequest,
    RewardReply,
    RolloutsReply,
    RolloutsRequest,
    RowReply,
    RowsReply,
    RowsRequest,
    ScoreReply,
    SentTask,
    ServedRolloutsRequest,
    ServeRequest,
    SideEffectsCase,
    SideEffectsReply,
    StoredCase,
)
from .scoring_v1 import TaskIndexV1
from .solutions import BadSolution

_ROUND_TRIPS = 500
"""Most tasks that are serialised and rebuilt. Of a larger taskset, evenly spaced tasks are taken."""
_LOSSY_EXAMPLES = 3
_SENT_FIRST, _SENT_OTHERS = 3, 24
"""Number of the first tasks that are sent, and of tasks that are evenly spaced over the others."""
_LARGEST_INTEGER = 2**64 - 1
"""The largest integer that msgpack can encode. Messages between trainer and env server are msgpack."""


def round_trip_rows(size: int, wanted: int = _ROUND_TRIPS) -> list[int]:
    """Return the rows of the tasks that are serialised and rebuilt."""
    return list(range(size)) if size <= wanted else [i * size // wanted for i in range(wanted)]


def sent_tasks(tasks: list[Any], rows: list[int]) -> list[SentTask]:
    """Return some tasks with their data as JSON, as the trainer sends them to the env server."""
    others = rows[_SENT_FIRST:]
    spread = [others[i] for i in round_trip_rows(len(others), _SENT_OTHERS)]
    sent = [*rows[:_SENT_FIRST], *spread]
    return [{"row": i, "data": d} for i in sent if (d := _as_json(tasks[i].data)) is not None]


def lossy_tasks(tasks: list[Any], rows: list[int], declared: type[Any]) -> tuple[list[LossyReply], int]:
    """Return examples of tasks that serialisation changes, and the number of all such tasks."""
    lost = [(i, *loss) for i in rows if (loss := lossy(tasks[i].data, declared))]
    examples = lost[:_LOSSY_EXAMPLES]
    return [{"row": i, "field": name, "why": coercion.text(why, 300)} for i, name, why in examples], len(lost)


def _as_json(data: Any) -> Any:
    try:
        return json.loads(json.dumps(data.model_dump(mode="json"), allow_nan=False))
    except Exception:
        return None


def lossy(data: Any, declared: type[Any]) -> tuple[str, str] | None:
    """Return the field that serialisation changes, and how; None if the rebuilt task is equal."""
    try:
        sent = data.model_dump(mode="json")
        text = json.dumps(sent)
    except Exception as error:
        return _unserialisable_field(data), f"{type(error).__name__}: {error}"
    if (name := _oversized_field(sent)) is not None:
        return name, "an integer beyond 64 bits cannot be sent"
    try:
        again = declared.model_validate(json.loads(text))
    except Exception as error:
        return "", f"what was sent is refused: {error}"
    if type(data) is not declared:
        more = sorted(set(type(data).model_fields) - set(declared.model_fields))
        what = f"its fields {', '.join(more)} are dropped" if more else "its class is replaced"
        return "", f"the data is a {type(data).__name__}, the Task declares {declared.__name__}: {what}"
    for name in declared.model_fields:
        before, after = getattr(data, name), getattr(again, name)
        if not _same(before, after):
            return name, f"{type(before).__name__} {before!r:.80} comes back as {type(after).__name__} {after!r:.80}"
    return None


def _same(one: Any, other: Any) -> bool:
    if repr(one) == repr(other):  # Compares texts, because NaN is not equal to itself.
        return True
    try:
        return bool(one == other) and type(one) is type(other)
    except Exception:
        return False


def _unserialisable_field(data: Any) -> str:
    for name in type(data).model_fields:
        try:
            json.dumps(data.model_dump(mode="json", include={name}))
        except Exception:
            return str(name)
    return ""


def _oversized_field(sent: dict[str, Any]) -> str | None:
    def large(value: Any) -> bool:
        if isinstance(value, int):
            return not -(2**63) <= value <= _LARGEST_INTEGER
        if isinstance(value, dict):
            return any(map(large, value.values()))
        return isinstance(value, list) and any(map(large, value))

    return next((name for name, value in sent.items() if large(value)), None)


_COUNT_LIMIT = 200_000
_COUNT_SECONDS = 20.0
"""Seconds of processor time for loading tasks. On a busy machine up to `_BUSY` times as many may pass on the clock."""
_LATER_TASKS = 20_000
"""Tasks of an infinite taskset from which later ones are drawn: as many as 625 steps of 32 tasks train on."""
_LATER_SECONDS = 5.0
_BUSY = 1.5
_ANSWER_FIELDS = (
    "answer",
    "gold",
    "target",
    "solution",
    "label",
    "expected",
    "expected_answer",
    "ground_truth",
    "reference",
)


class AdapterV1(Adapter):
    """A v1 taskset. `Task.score` computes its rewards."""

    def __init__(self) -> None:
        super().__init__()
        self.v1: Any = importlib.import_module("verifiers.v1")
        self.tasks: list[Any] = []
        self.ended = False
        self.load_seconds = 0.0
        self.keys: dict[int, str] = {}
        self.first_digests: dict[int, str | None] = {}
        self._index: TaskIndexV1 | None = None
        self.runtimes: dict[type, bool] = {}
        """Whether tasks of a class, or hooks of that class, need a runtime."""

    def load(self, module: ModuleType, request: LoadRequest) -> LoadReply:
        started = time.monotonic()
        self.build(module, request)
        self.stream: Iterator[Any] = iter(self.taskset)
        self.pull(1)
        if not self.infinite:
            self.pull(_COUNT_LIMIT, _COUNT_SECONDS)
        return self._describe(module, started)

    def build(self, module: ModuleType, request: EnvironmentRequest) -> None:
        """Build the taskset from its class and config, without loading tasks. Sets `taskset` and `kind`."""
        self.module = module
        CaughtExceptions.listen(request["module"])
        self.kind = kind = _exported(module, self.v1.Taskset)
        generic = importlib.import_module("verifiers.v1.utils.generic")
        config_type = generic.concrete_type(kind, self.v1.TasksetConfig, origin=self.v1.Taskset)
        config = (config_type or self.v1.TasksetConfig).model_validate({"id": request["module"], **request["env_args"]})
        self.taskset = kind(config)
        judges.observe_requests()
        self.infinite = bool(getattr(self.taskset, "INFINITE", False))

    def facts(self) -> FactsReply:
        declared = self.kind.task_type()
        data_type = declared.data_type()
        rows = round_trip_rows(len(self.tasks))
        lossy, lossy_total = lossy_tasks(self.tasks, rows, data_type)
        split = config_v1.held_out(self.taskset.config)
        return {
            "args": list(config_v1.arguments(type(self.taskset.config), self.v1)),
            "held_out": f"{split[0]}={split[1]}" if split else None,
            "excluded": [n for n, field in data_type.model_fields.items() if field.exclude],
            "declared_task": declared.__name__,
            "other_tasks": sorted({type(t).__name__ for t in self.tasks if type(t) is not declared}),
            "tried": len(rows),
            "lossy": lossy,
            "lossy_total": lossy_total,
            "roles": config_v1.roles(self),
            "shapes": config_v1.schemas(self),
            "sent_tasks": sent_tasks(self.tasks, rows),
            "generator": config_v1.argument_effects(self),
        }

    def serve(self, module: ModuleType, request: ServeRequest) -> list[ScoreReply]:
        """Score completions as the env server does: rebuild each task from its data and never call `load()`."""
        self._rebuild(module, request, [c["data"] for c in request["cases"]])
        limit = request["case_timeout"]
        return [self.score({"row": i, "messages": c["messages"]}, limit) for i, c in enumerate(request["cases"])]

    def serve_rollouts(self, module: ModuleType, request: ServedRolloutsRequest) -> RolloutsReply:
        """Run rollouts as the env server does: of tasks that are rebuilt from their data, without `load()`."""
        self._rebuild(module, request, request["data"])
        return self.run_rollouts(request["rollouts"])

    def _rebuild(self, module: ModuleType, request: EnvironmentRequest, data: list[dict[str, Any]]) -> None:
        self.build(module, request)
        task_type = self.kind.task_type()
        data_type = task_type.data_type()
        config = self.taskset.config.task
        self.tasks = [task_type(data_type.model_validate(one), config) for one in data]
        self.ended = True

    def task_data(self, rows: list[int]) -> list[Any]:
        self.pull(max(rows, default=-1) + 1, _COUNT_SECONDS)
        return [_as_json(self.tasks[row].data) if row < len(self.tasks) else None for row in rows]

    def pull(self, wanted: int, seconds: float = math.inf) -> None:
        """Load tasks until `wanted` tasks are there, the taskset ends, or loading has taken `seconds`."""
        if self.ended or len(self.tasks) >= wanted:
            return  # Before each case; to ask for the processor time would take longer than some rewards.
        began, deadline = time.process_time(), time.monotonic() + _BUSY * seconds
        while not self.ended and len(self.tasks) < wanted:
            if time.monotonic() >= deadline or time.process_time() - began >= seconds:
                return
            try:
                self.tasks.append(next(self.stream))
            except StopIteration:
                self.ended = True

    def _describe(self, module: ModuleType, started: float) -> LoadReply:
        data_type = self.kind.task_type().data_type()
        base = set(self.v1.TaskData.model_fields)
        first = self.tasks[0] if self.tasks else None
        self.load_seconds = time.monotonic() - started
        return {
            "kind": self.kind.__name__,
            "tasks": len(self.tasks) if self.ended else None,
            "infinite": self.infinite,
            "turns": scripted_rollouts_v1.applies(self),
            "own_run": config_v1.has_own_run(self),
            "container": first is not None and _needs_container(first),
            "solutions": first is not None and _states_solution(first),
            "task_class": self.kind.task_type().__name__,
            "rewards": self._rewards(first),
            "fields": [name for name in data_type.model_fields if name not in base],
            "system_prompt": coercion.to_json(first.data.system_prompt) if first is not None else None,
            "shadowed_by": _builtin(module.__name__),
            "judges": judges.of_configs(self.v1, getattr(first, "config", None), self.taskset.config),
            "seconds": self.load_seconds,
        }

    def _rewards(self, task: Any) -> list[RewardReply]:
        if task is None:
            return []
        hooked: list[RewardReply] = [
            {
                "name": fn.__name__,
                "weight": coercion.number(getattr(fn, "_vf_weight", 1.0)) if attr == "reward" else 0.0,
                "kind": attr,
                "is_async": inspect.iscoroutinefunction(inspect.unwrap(fn)),
            }
            for attr in ("reward", "metric")
            for fn in task.hooks(attr)
        ]
        judges = [(j.reward_name, j.config.weight) for j in task.plugged_judges()]
        return hooked + [{"name": n, "weight": w, "kind": "reward", "is_async": True} for n, w in judges]

    def rows(self, request: RowsRequest) -> RowsReply:
        """Return a seeded sample in task order, or the first tasks of an infinite or uncounted taskset.

        `after` asks for a sample of the tasks that follow so many first ones of such a taskset. If `split` is `eval`,
        return tasks of the split that is not loaded. The result is empty if the config has no field that selects the
        split.
        """
        limit = int(request["limit"])
        if request.get("split") == "eval":
            return self._other_split(limit)
        self.pull(limit, _COUNT_SECONDS)
        chance = random.Random(request["seed"])
        if request["after"] is not None and not self.ended:
            drawn = self._rows_after(request["after"], limit, chance)
            return {"rows": [self._row(i) for i in drawn], "total": None}
        indices: list[int] = list(range(len(self.tasks)))
        if self.ended and len(indices) > limit:
            indices = sorted(chance.sample(indices, limit))
        return {"rows": [self._row(i) for i in indices[:limit]], "total": len(self.tasks) if self.ended else None}

    def _rows_after(self, first: int, limit: int, chance: random.Random) -> list[int]:
        """Draw tasks from `first` on, whose logarithms are uniform, as far as they load in `_LATER_SECONDS`.

        So some follow the first ones closely, and some are far behind, wherever a generator begins to differ.
        """
        last = max(first + limit, _COUNT_LIMIT if len(self.tasks) >= _COUNT_LIMIT else _LATER_TASKS)
        drawn = sorted({int(first * (last / first) ** chance.random()) for _ in range(limit)})
        self.pull(drawn[-1] + 1, _LATER_SECONDS)
        return [index for index in drawn if index < len(self.tasks)]

    def _other_split(self, limit: int) -> RowsReply:
        config = self.taskset.config
        split = config_v1.held_out(config)
        if split is None:
            return {"rows": [], "total": 0}
        other = self.kind(type(config).model_validate({**config.model_dump(), split[0]: split[1]}))
        rows: list[RowReply] = []
        deadline = time.monotonic() + _COUNT_SECONDS
        for index, task in enumerate(other):
            if index >= limit or time.monotonic() > deadline:
                return {"rows": rows, "total": None}
            rows.append(self._row_reply(task, index, coercion.text(task.key, 200)))
        return {"rows": rows, "total": len(rows)}

    def _row(self, index: int) -> RowReply:
        return self._row_reply(self.tasks[index], index, self._key(index))

    def _row_reply(self, task: Any, index: int, key: str) -> RowReply:
        data = task.data
        base = set(self.v1.TaskData.model_fields)
        fields = {n: coercion.to_json(getattr(data, n)) for n in type(data).model_fields if n not in base}
        answer = next((fields[n] for n in _ANSWER_FIELDS if n in fields), None)
        return {
            "index": index,
            "key": key,
            "prompt": [
                coercion.to_json(m.model_dump(mode="json", exclude_none=True))
                for m in scoring_v1.prompt_messages(self.v1, data)
            ],
            "answer": answer,
            "info": fields.get("info"),
            "fields": fields,
        }

    def _key(self, index: int) -> str:
        if index not in self.keys:
            self.keys[index] = coercion.text(self.tasks[index].key, 200)
        return self.keys[index]

    # --- scoring -----------------------------------------------------------------------------------------------

    def score(self, case: CaseRequest, timeout: float) -> ScoreReply:
        self.pull(case["row"] + 1, _COUNT_SECONDS)
        if case["row"] >= len(self.tasks):
            return observer.no_row(case["row"])
        task = self.tasks[case["row"]]
        observation = Observation()
        if case.get("key") and case["key"] != self._key(case["row"]):
            observation.add_problem("task-changed")
        self.remember_data(case["row"])
        trace: Any = None

        def start() -> Awaitable[None]:
            nonlocal trace
            trace = scoring_v1.scripted_trace(self.v1, task, case["messages"])
            return self._score(task, trace, observation)

        ms = self.run_scoring(observation, case, timeout, start)
        return scoring_v1.scoring_result(observation, trace, ms)

    def remember_data(self, row: int) -> None:
        """Store a digest of the task's data before the first scoring of the task."""
        if row not in self.first_digests:
            self.first_digests[row] = self._digest(row)

    def _digest(self, row: int) -> str | None:
        try:
            return hashlib.sha256(self.tasks[row].data.model_dump_json().encode()).hexdigest()
        except Exception:
            return None  # Data that JSON cannot hold has no digest.

    def measure_side_effects(self, cases: list[SideEffectsCase], timeout: float) -> list[SideEffectsReply]:
        self.pull(max(case["row"] for case in cases) + 1, _COUNT_SECONDS)
        for case in cases:
            self.remember_data(case["row"])
        with side_effects.watching(Observation()):
            return self.event_loop().run_until_complete(side_effects.measure(self, cases, timeout))

    def changed_since_loading(self, row: int) -> list[str]:
        return ["task data"] if self.first_digests[row] != self._digest(row) else []

    async def attempt(self, case: SideEffectsCase) -> side_effects.ScoringAttempt:
        task = self.tasks[case["row"]]
        trace, observation = scoring_v1.scripted_trace(self.v1, task, case["messages"]), Observation()
        names = list(type(task.data).model_fields)
        return side_effects.ScoringAttempt(
            lambda: self._score(task, trace, observation),
            lambda: {
                **{f"task.data.{n}": getattr(task.data, n, None) for n in names},
                "messages": [n.message for n in trace.nodes],
            },
            lambda: scoring_v1.scoring_result(observation, trace, 0.0)["reward"],
        )

    def run_rollouts(self, request: RolloutsRequest) -> RolloutsReply:
        return scripted_rollouts_v1.run(self, request)

    def solution(self, row: int) -> Any:
        self.pull(row + 1, 10.0)
        task = self.tasks[row]
        if not _states_solution(task):
            raise BadSolution(f"{type(task).__name__} has no method solution")
        return task.solution

    def task_index(self, limit: int) -> TaskIndexV1:
        if self._index is None:
            self._index = TaskIndexV1(self, limit)
        return self._index

    def unfit_for_rescoring(self) -> str:
        return scoring_v1.unfit_stored(self)

    def rescore(self, case: StoredCase, request: RescoreRequest) -> ScoreReply:
        return scoring_v1.score_stored(self, case, request)

    async def _score(self, task: Any, trace: Any, observation: Observation) -> None:
        watched = scoring_v1.observed(task, observation)
        if not self.needs_runtime(task):
            return await scoring_v1.settled(watched.score(trace))
        if getattr(task, "NEEDS_CONTAINER", False):
            observation.add_problem("needs-container")
        runtimes = importlib.import_module("verifiers.v1.runtimes")
        async with runtimes.provision_runtime(self.v1.SubprocessConfig(), name=trace.id) as runtime:
            available = {"trace": trace, "runtime": runtime}
            invoke = importlib.import_module("verifiers.v1.utils.decorators").invoke
            await invoke(task.setup, available)
            await invoke(task.finalize, available)
            await scoring_v1.settled(watched.score(trace, runtime))

    def needs_runtime(self, task: Any) -> bool:
        """Return whether the task or one of its hooks needs a runtime, such as a subprocess or a container."""
        kind = type(task)
        if kind not in self.runtimes:
            self.runtimes[kind] = self._asks_for_runtime(task)
        return self.runtimes[kind]

    def _asks_for_runtime(self, task: Any) -> bool:
        base, kind = self.v1.Task, type(task)
        if kind.setup is not base.setup or kind.finalize is not base.finalize:
            return True
        return scoring_v1.hooks_use_runtime(task)


def _needs_container(task: Any) -> bool:
    """Return whether verifiers refuses a task where there is no container."""
    return bool(getattr(task, "NEEDS_CONTAINER", False)) or task.data.image is not None


def _states_solution(task: Any) -> bool:
    return getattr(task, "solution", None) is not None


def _exported(module: ModuleType, base: type) -> Any:
    """Return the one subclass of `base` that `__all__` names. verifiers applies the same rule."""
    names = getattr(module, "__all__", None)
    if names is None:
        raise AttributeError(f"{module.__name__} has no __all__; it must name exactly one {base.__name__} subclass")
    exported = [getattr(module, n, None) for n in names]
    kinds = [k for k in exported if isinstance(k, type) and issubclass(k, base) and k is not base]
    if len(kinds) != 1:
        raise TypeError(f"__all__ of {module.__name__} names {len(kinds)} {base.__name__} subclasses, not exactly one")
    return kinds[0]


def _builtin(name: str) -> str | None:
    # Importing the package of built-in tasksets would take more than a second, so only its files are searched.
    packages = importlib.import_module("verifiers.v1").__path__
    spec = PathFinder.find_spec(name.lower(), [f"{p}/tasksets" for p in packages])
    return f"verifiers.v1.tasksets.{name.lower()}" if spec is not None else None
