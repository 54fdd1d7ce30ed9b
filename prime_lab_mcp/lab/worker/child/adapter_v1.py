"""The adapter for v1 environments (`verifiers.v1`, 0.3 and newer): a Taskset, its tasks, their scoring over a trace.

Rewards run through `Task.score`, as in evaluation and training. The hooks are wrapped in order to observe their real
results, because `score` converts values and stops at the first exception.

The adapter also tries whether a task survives the wire between trainer and env server. The env server never calls
`load()`: the trainer sends it `TaskData` as JSON, from which the env server rebuilds
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
    generator_v1,
    judges,
    observer,
    scoring_v1,
    scripted_rollouts_v1,
    side_effects,
)
from .adapter import Adapter
from .observer import Observation
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
    ServeRequest,
    SideEffectsCase,
    SideEffectsReply,
    StoredCase,
)
from .scoring_v1 import TaskIndexV1
from .solutions import BadSolution

_TRIPS = 500
"""Tasks that are serialised and rebuilt; of a larger set evenly spaced ones."""
_MOST_EXAMPLES = 3
_SENT = 3
_LARGEST = 2**64 - 1


def tried_rows(size: int, wanted: int = _TRIPS) -> list[int]:
    """The rows of the tasks that are serialised and rebuilt."""
    return list(range(size)) if size <= wanted else [i * size // wanted for i in range(wanted)]


def sent_tasks(tasks: list[Any], rows: list[int]) -> list[SentTask]:
    """A few tasks as they are sent."""
    return [{"row": i, "data": d} for i in rows[:_SENT] if (d := _dumped(tasks[i].data)) is not None]


def lossy_tasks(tasks: list[Any], rows: list[int], declared: type[Any]) -> tuple[list[LossyReply], int]:
    """Some of the tasks that do not come back equal, and their number."""
    lost = [(i, *loss) for i in rows if (loss := lossy(tasks[i].data, declared))]
    examples = lost[:_MOST_EXAMPLES]
    return [{"row": i, "field": name, "why": coercion.text(why, 300)} for i, name, why in examples], len(lost)


def _dumped(data: Any) -> Any:
    try:
        return json.loads(json.dumps(data.model_dump(mode="json"), allow_nan=False))
    except Exception:
        return None


def lossy(data: Any, declared: type[Any]) -> tuple[str, str] | None:
    """The field that does not survive the wire, and why; None when the task comes back equal."""
    try:
        sent = data.model_dump(mode="json")
        text = json.dumps(sent)
    except Exception as error:
        return _culprit(data), f"{type(error).__name__}: {error}"
    if (name := _too_large(sent)) is not None:
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
    if repr(one) == repr(other):  # NaN equals itself here
        return True
    try:
        return bool(one == other) and type(one) is type(other)
    except Exception:
        return False


def _culprit(data: Any) -> str:
    for name in type(data).model_fields:
        try:
            json.dumps(data.model_dump(mode="json", include={name}))
        except Exception:
            return str(name)
    return ""


def _too_large(sent: dict[str, Any]) -> str | None:
    def large(value: Any) -> bool:
        if isinstance(value, int):
            return not -(2**63) <= value <= _LARGEST
        if isinstance(value, dict):
            return any(map(large, value.values()))
        return isinstance(value, list) and any(map(large, value))

    return next((name for name, value in sent.items() if large(value)), None)


_COUNT_LIMIT = 200_000
_COUNT_SECONDS = 20.0
_ANSWERS = ("answer", "gold", "target", "solution", "label", "expected", "expected_answer", "ground_truth", "reference")


class AdapterV1(Adapter):
    """One taskset. Rewards run through `Task.score`."""

    def __init__(self) -> None:
        super().__init__()
        self.v1: Any = importlib.import_module("verifiers.v1")
        self.tasks: list[Any] = []
        self.ended = False
        self.load_seconds = 0.0
        self.keys: dict[int, str] = {}
        self.pristine: dict[int, str | None] = {}
        self._index: TaskIndexV1 | None = None
        self.runtimes: dict[type, bool] = {}
        """By class of task: whether the task or a hook needs a runtime."""

    def load(self, module: ModuleType, request: LoadRequest) -> LoadReply:
        started = time.monotonic()
        self.build(module, request)
        self.stream: Iterator[Any] = iter(self.taskset)
        self.pull(1)
        if not self.infinite:
            self.pull(_COUNT_LIMIT, _COUNT_SECONDS)
        return self._describe(module, started)

    def build(self, module: ModuleType, request: EnvironmentRequest) -> None:
        """The taskset, built from its class and config, before its tasks are loaded."""
        self.module = module
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
        tried = tried_rows(len(self.tasks))
        lossy, lossy_total = lossy_tasks(self.tasks, tried, data_type)
        split = config_v1.held_out(self.taskset.config)
        return {
            "args": list(config_v1.arguments(type(self.taskset.config), self.v1)),
            "held_out": f"{split[0]}={split[1]}" if split else None,
            "excluded": [n for n, field in data_type.model_fields.items() if field.exclude],
            "declared_task": declared.__name__,
            "other_tasks": sorted({type(t).__name__ for t in self.tasks if type(t) is not declared}),
            "tried": len(tried),
            "lossy": lossy,
            "lossy_total": lossy_total,
            "roles": config_v1.roles(self),
            "shapes": config_v1.schemas(self),
            "sent_tasks": sent_tasks(self.tasks, tried),
            "generator": generator_v1.compared(self),
        }

    def serve(self, module: ModuleType, request: ServeRequest) -> list[ScoreReply]:
        """Score completions in the same way as the env server: tasks are rebuilt from data, without `load()`."""
        self.build(module, request)
        task_type = self.kind.task_type()
        data_type = task_type.data_type()
        config = self.taskset.config.task
        self.tasks = [task_type(data_type.model_validate(c["data"]), config) for c in request["cases"]]
        self.ended = True
        limit = request["case_timeout"]
        return [self.score({"row": i, "messages": c["messages"]}, limit) for i, c in enumerate(request["cases"])]

    def pull(self, wanted: int, seconds: float = math.inf) -> None:
        """Load tasks until there are `wanted`, the taskset ends, or the time limit is reached."""
        deadline = time.monotonic() + seconds
        while not self.ended and len(self.tasks) < wanted and time.monotonic() < deadline:
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
        """A seeded sample in task order; of an infinite or uncounted taskset, its first tasks.

        With `split` = `eval`: tasks of the split that is not loaded, where the config has a field for it.
        """
        limit = int(request["limit"])
        if request.get("split") == "eval":
            return self._other_split(limit)
        self.pull(limit, _COUNT_SECONDS)
        indices: list[int] = list(range(len(self.tasks)))
        if self.ended and len(indices) > limit:
            indices = sorted(random.Random(request["seed"]).sample(indices, limit))
        return {"rows": [self._row(i) for i in indices[:limit]], "total": len(self.tasks) if self.ended else None}

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
        answer = next((fields[n] for n in _ANSWERS if n in fields), None)
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
        self.remember(case["row"])
        trace: Any = None

        def start() -> Awaitable[None]:
            nonlocal trace
            trace = scoring_v1.scripted_trace(self.v1, task, case["messages"])
            return self._score(task, trace, observation)

        ms = self.run_scoring(observation, case, timeout, start)
        return scoring_v1.scoring_result(observation, trace, ms)

    def remember(self, row: int) -> None:
        """Store the data of a task before its first scoring."""
        if row not in self.pristine:
            self.pristine[row] = self._digest(row)

    def _digest(self, row: int) -> str | None:
        try:
            return hashlib.sha256(self.tasks[row].data.model_dump_json().encode()).hexdigest()
        except Exception:
            return None  # Data that JSON cannot hold is compared only before and after each scoring.

    def measure_side_effects(self, cases: list[SideEffectsCase], timeout: float) -> list[SideEffectsReply]:
        self.pull(max(case["row"] for case in cases) + 1, _COUNT_SECONDS)
        for case in cases:
            self.remember(case["row"])
        with side_effects.watching(Observation()):
            return self.event_loop().run_until_complete(side_effects.measure(self, cases, timeout))

    def changed_since_loading(self, row: int) -> list[str]:
        return ["task data"] if self.pristine[row] != self._digest(row) else []

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
        """Whether the task or one of its hooks needs a runtime."""
        kind = type(task)
        if kind not in self.runtimes:
            self.runtimes[kind] = self._asks_for_runtime(task)
        return self.runtimes[kind]

    def _asks_for_runtime(self, task: Any) -> bool:
        base, kind = self.v1.Task, type(task)
        if kind.setup is not base.setup or kind.finalize is not base.finalize:
            return True
        return scoring_v1.hooks_use_runtime(task)


def _states_solution(task: Any) -> bool:
    return getattr(task, "solution", None) is not None


def _exported(module: ModuleType, base: type) -> Any:
    """The one subclass that `__all__` names, by the rule that verifiers applies."""
    names = getattr(module, "__all__", None)
    if names is None:
        raise AttributeError(f"{module.__name__} has no __all__; it must name exactly one {base.__name__} subclass")
    exported = [getattr(module, n, None) for n in names]
    kinds = [k for k in exported if isinstance(k, type) and issubclass(k, base) and k is not base]
    if len(kinds) != 1:
        raise TypeError(f"__all__ of {module.__name__} names {len(kinds)} {base.__name__} subclasses, not exactly one")
    return kinds[0]


def _builtin(name: str) -> str | None:
    # Without importing the package of built-in tasksets, which takes more than a second.
    packages = importlib.import_module("verifiers.v1").__path__
    spec = PathFinder.find_spec(name.lower(), [f"{p}/tasksets" for p in packages])
    return f"verifiers.v1.tasksets.{name.lower()}" if spec is not None else None
