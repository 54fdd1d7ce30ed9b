"""The adapter for v1 environments (`verifiers.v1`, 0.3 and newer): a Taskset, its tasks, their scoring over a trace.

Rewards run through `Task.score`, the path that evaluation and training use. What each hook really returned is seen by
wrapping the hooks, because `score` converts values and stops at the first exception.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import hashlib
import importlib
import inspect
import math
import random
import sys
import time
from collections.abc import Iterator
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, cast

_COUNT_LIMIT = 200_000
_COUNT_SECONDS = 20.0
_ANSWERS = ("answer", "gold", "target", "solution", "label", "expected", "expected_answer", "ground_truth", "reference")


def _sibling(name: str) -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling(name)


class Adapter:
    """One loaded taskset."""

    api = "v1"

    def __init__(self) -> None:
        self.v1: Any = importlib.import_module("verifiers.v1")
        self.plain: Any = _sibling("plain")
        self.tasks: list[Any] = []
        self.ended = False
        self.keys: dict[int, str] = {}
        self.pristine: dict[int, str | None] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.runtimes: dict[type, bool] = {}
        """By class of task: whether anything of it asks for a runtime."""
        self.scored = False

    def load(self, module: ModuleType, request: dict[str, Any]) -> dict[str, Any]:
        """Build the taskset from its exported class and `env_args`, and its first task."""
        started = time.monotonic()
        self.build(module, request)
        self.stream: Iterator[Any] = iter(self.taskset)
        self._pull(1)
        if not self.infinite:
            self._pull(_COUNT_LIMIT, _COUNT_SECONDS)
        return self._describe(module, started)

    def build(self, module: ModuleType, request: dict[str, Any]) -> None:
        """The taskset as its class and config make it, no task of it yet."""
        self.module = module
        self.kind = kind = _exported(module, self.v1.Taskset)
        generic = importlib.import_module("verifiers.v1.utils.generic")
        config_type = generic.concrete_type(kind, self.v1.TasksetConfig, origin=self.v1.Taskset)
        config = (config_type or self.v1.TasksetConfig).model_validate({"id": request["module"], **request["env_args"]})
        self.taskset = kind(config)
        _sibling("judges").watch()
        self.infinite = bool(getattr(self.taskset, "INFINITE", False))

    def facts(self) -> dict[str, Any]:
        """What training asks of a taskset beyond loading."""
        return cast(dict[str, Any], _sibling("wire").facts(self))

    def serve(self, module: ModuleType, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Scores of tasks rebuilt from their data, without ever calling `load()`."""
        return cast(list[dict[str, Any]], _sibling("wire").served(self, module, request))

    def _pull(self, wanted: int, seconds: float = math.inf) -> None:
        deadline = time.monotonic() + seconds
        while not self.ended and len(self.tasks) < wanted and time.monotonic() < deadline:
            try:
                self.tasks.append(next(self.stream))
            except StopIteration:
                self.ended = True

    def _describe(self, module: ModuleType, started: float) -> dict[str, Any]:
        data_type = self.kind.task_type().data_type()
        base = set(self.v1.TaskData.model_fields)
        first = self.tasks[0] if self.tasks else None
        return {
            "kind": self.kind.__name__,
            "tasks": len(self.tasks) if self.ended else None,
            "infinite": self.infinite,
            "turns": _sibling("rollouts_v1").applies(self),
            "rewards": self._rewards(first),
            "fields": [name for name in data_type.model_fields if name not in base],
            "system_prompt": self.plain.plain(first.data.system_prompt) if first is not None else None,
            "shadowed_by": _builtin(module.__name__),
            "judges": _sibling("judges").of_configs(self.v1, getattr(first, "config", None), self.taskset.config),
            "seconds": time.monotonic() - started,
        }

    def _rewards(self, task: Any) -> list[dict[str, Any]]:
        if task is None:
            return []
        found = [
            {
                "name": fn.__name__,
                "weight": self.plain.number(getattr(fn, "_vf_weight", 1.0)) if attr == "reward" else 0.0,
                "kind": attr,
                "is_async": inspect.iscoroutinefunction(inspect.unwrap(fn)),
            }
            for attr in ("reward", "metric")
            for fn in task.hooks(attr)
        ]
        judges = [(j.reward_name, j.config.weight) for j in task.plugged_judges()]
        return found + [{"name": n, "weight": w, "kind": "reward", "is_async": True} for n, w in judges]

    def rows(self, request: dict[str, Any]) -> dict[str, Any]:
        """A seeded sample in task order; of an infinite or uncounted taskset, its first tasks.

        With `split` = `eval`: tasks of the split that is not loaded, where the config has a field for it.
        """
        limit = int(request["limit"])
        if request.get("split") == "eval":
            return self._other_split(limit)
        self._pull(limit, _COUNT_SECONDS)
        indices: list[int] = list(range(len(self.tasks)))
        if self.ended and len(indices) > limit:
            indices = sorted(random.Random(request["seed"]).sample(indices, limit))
        return {"rows": [self._row(i) for i in indices[:limit]], "total": len(self.tasks) if self.ended else None}

    def _other_split(self, limit: int) -> dict[str, Any]:
        config = self.taskset.config
        found = _sibling("wire").held_out(config)
        if found is None:
            return {"rows": [], "total": 0}
        other = self.kind(type(config).model_validate({**config.model_dump(), found[0]: found[1]}))
        rows: list[dict[str, Any]] = []
        deadline = time.monotonic() + _COUNT_SECONDS
        for index, task in enumerate(other):
            if index >= limit or time.monotonic() > deadline:
                return {"rows": rows, "total": None}
            rows.append(self._plain_row(task, index, self.plain.text(task.key, 200)))
        return {"rows": rows, "total": len(rows)}

    def _row(self, index: int) -> dict[str, Any]:
        return self._plain_row(self.tasks[index], index, self._key(index))

    def _plain_row(self, task: Any, index: int, key: str) -> dict[str, Any]:
        data = task.data
        base = set(self.v1.TaskData.model_fields)
        fields = {n: self.plain.plain(getattr(data, n)) for n in type(data).model_fields if n not in base}
        answer = next((fields[n] for n in _ANSWERS if n in fields), None)
        return {
            "index": index,
            "key": key,
            "prompt": [self.plain.plain(m.model_dump(mode="json", exclude_none=True)) for m in self._prompt(data)],
            "answer": answer,
            "info": fields.get("info"),
            "fields": fields,
        }

    def _key(self, index: int) -> str:
        if index not in self.keys:
            self.keys[index] = self.plain.text(self.tasks[index].key, 200)
        return self.keys[index]

    def _prompt(self, data: Any) -> list[Any]:
        head = [self.v1.SystemMessage(content=data.system_prompt)] if data.system_prompt else []
        if data.prompt is None:
            return head
        if isinstance(data.prompt, str):
            return [*head, self.v1.UserMessage(content=data.prompt)]
        return [*head, *data.prompt]

    # --- scoring -----------------------------------------------------------------------------------------------

    def score(self, case: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Score one completion; whatever the environment's code raises is part of the result."""
        self._pull(case["row"] + 1, _COUNT_SECONDS)
        if case["row"] >= len(self.tasks):
            return cast(dict[str, Any], _sibling("watch").no_row(case["row"]))
        task = self.tasks[case["row"]]
        seen = _sibling("watch").Seen()
        if case.get("key") and case["key"] != self._key(case["row"]):
            seen.problem("task-changed")
        loop = self._loop(case["row"])
        started = time.perf_counter()
        trace: Any = None
        try:
            trace = self._trace(task, case["messages"])
            with _sibling("audit").watching(seen, case):
                loop.run_until_complete(asyncio.wait_for(self._score(task, trace, seen), timeout))
        except BaseException as error:
            seen.failed(error, time.perf_counter() - started, timeout)
            if not isinstance(error, Exception):
                self.loop = None
        seconds = time.perf_counter() - started
        seen.late(seconds, timeout, first=not self.scored)
        self.scored = True
        _sibling("audit").look_behind(seen)
        return _result(self.plain, seen, trace, seconds * 1000)

    def _loop(self, row: int) -> asyncio.AbstractEventLoop:
        """The loop that rewards run in. What the task holds before its first scoring is noted."""
        if row not in self.pristine:
            self.pristine[row] = self._digest(row)
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        return self.loop

    def _digest(self, row: int) -> str | None:
        try:
            return hashlib.sha256(self.tasks[row].data.model_dump_json().encode()).hexdigest()
        except Exception:
            return None  # what cannot be written as JSON is compared before and after each scoring only

    def together(self, cases: list[dict[str, Any]], timeout: float) -> list[dict[str, Any]]:
        """How scoring these cases behaves, alone and at once."""
        self._pull(max(case["row"] for case in cases) + 1, _COUNT_SECONDS)
        for case in cases:
            loop = self._loop(case["row"])
        with _sibling("audit").watching(_sibling("watch").Seen()):
            found = loop.run_until_complete(_sibling("together").observe(self, cases, timeout))
        return cast(list[dict[str, Any]], found)

    def changed_since_loading(self, row: int) -> list[str]:
        """Inputs of a task that an earlier scoring changed for good."""
        return ["task data"] if self.pristine[row] != self._digest(row) else []

    async def attempt(self, case: dict[str, Any]) -> Any:
        """A scoring of this case that has not begun."""
        task = self.tasks[case["row"]]
        trace, seen = self._trace(task, case["messages"]), _sibling("watch").Seen()
        names = list(type(task.data).model_fields)
        return _sibling("together").Attempt(
            lambda: self._score(task, trace, seen),
            lambda: {
                **{f"task.data.{n}": getattr(task.data, n, None) for n in names},
                "messages": [n.message for n in trace.nodes],
            },
            lambda: _result(self.plain, seen, trace, 0.0)["reward"],
        )

    async def _score(self, task: Any, trace: Any, seen: Any) -> None:
        watched = copy.copy(task)
        watched.hooks = lambda attr: [_watched(fn, attr, seen) for fn in task.hooks(attr)]
        if not self._needs_runtime(task):
            return await _settled(watched.score(trace))
        if getattr(task, "NEEDS_CONTAINER", False):
            seen.problem("needs-container")
        runtimes = importlib.import_module("verifiers.v1.runtimes")
        async with runtimes.provision_runtime(self.v1.SubprocessConfig(), name=trace.id) as runtime:
            available = {"trace": trace, "runtime": runtime}
            invoke = importlib.import_module("verifiers.v1.utils.decorators").invoke
            await invoke(task.setup, available)
            await invoke(task.finalize, available)
            await _settled(watched.score(trace, runtime))

    def _needs_runtime(self, task: Any) -> bool:
        kind = type(task)
        if kind not in self.runtimes:
            self.runtimes[kind] = self._asks_for_runtime(task)
        return self.runtimes[kind]

    def _asks_for_runtime(self, task: Any) -> bool:
        base, kind = self.v1.Task, type(task)
        if kind.setup is not base.setup or kind.finalize is not base.finalize:
            return True
        hooks = [*task.hooks("metric"), *task.hooks("reward"), *(j.score for j in task.plugged_judges())]
        return any("runtime" in inspect.signature(fn).parameters for fn in hooks)

    def _trace(self, task: Any, completion: list[dict[str, Any]]) -> Any:
        v1 = self.v1
        states = importlib.import_module("verifiers.v1.state")
        trace = v1.Trace(
            task=v1.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=states.state_cls(type(task))(),
            agent=v1.AgentInfo(config=v1.AgentConfig(runtime=v1.SubprocessConfig()), name="agent", trainable=False),
        )
        prompt = self._prompt(task.data)
        for number, message in enumerate([*prompt, *map(self._message, completion)]):
            sampled = number >= len(prompt) and message.role == "assistant"
            node = v1.MessageNode(parent=number - 1 if number else None, message=message, sampled=sampled)
            trace.nodes.append(node)
            if sampled:
                trace.calls.append(_call(number, message, trace.nodes))
        trace.is_completed = trace.ok = True
        trace.stop_condition = "agent_completed"
        return trace

    def _message(self, raw: dict[str, Any]) -> Any:
        kinds = {"assistant": "AssistantMessage", "tool": "ToolMessage", "user": "UserMessage"}
        fields = {k: v for k, v in raw.items() if v is not None}
        if "tool_calls" in fields:
            fields["tool_calls"] = [{**c, **c["function"]} if "function" in c else c for c in fields["tool_calls"]]
            for call in fields["tool_calls"]:
                call.pop("function", None)
        return getattr(self.v1, kinds.get(raw.get("role", ""), "SystemMessage")).model_validate(fields)


def _watched(fn: Any, attr: str, seen: Any) -> Any:
    """The hook as `Task.score` would call it, with what it returns looked at on the way."""
    name = fn.__name__

    @functools.wraps(fn)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            value = fn(*args, **kwargs)
            if not inspect.isawaitable(value):
                seen.problem(f"sync-{attr}")
                raise TypeError(f"{name} is not async; verifiers awaits every {attr}")
            value = await value
        except BaseException as error:
            seen.error(error, name)
            raise
        seen.look(value, name)
        return value

    return watched


def _result(plain: Any, seen: Any, trace: Any, ms: float) -> dict[str, Any]:
    """The scored case. The reward is null where verifiers would have recorded a failed rollout."""
    rewards = dict(trace.rewards) if trace is not None else {}
    components = {
        plain.text(n, 200): {
            "score": None if r is None else plain.number(r.score),
            "weight": 1.0 if r is None else plain.number(r.weight),
        }
        for n, r in rewards.items()
    }
    complete = trace is not None and not seen.errors and None not in rewards.values()
    metrics = trace.metrics if trace is not None else {}
    return {
        "reward": plain.number(trace.reward) if complete else None,
        "components": components,
        "metrics": {plain.text(n, 200): plain.number(v) for n, v in metrics.items()},
        **seen.told(),
        "ms": ms,
    }


async def _settled(scoring: Any) -> None:
    """Await a scoring and then what it left running: it stops at the first hook that raises, the others go on."""
    before = asyncio.all_tasks()
    try:
        await scoring
    finally:
        rest = [t for t in asyncio.all_tasks() - before if not t.done()]
        if rest:
            await asyncio.wait(rest, timeout=1.0)


def _exported(module: ModuleType, base: type) -> Any:
    """The one subclass that `__all__` names, by the rule that verifiers applies."""
    names = getattr(module, "__all__", None)
    if names is None:
        raise AttributeError(f"{module.__name__} has no __all__; it must name exactly one {base.__name__} subclass")
    found = [getattr(module, n, None) for n in names]
    kinds = [k for k in found if isinstance(k, type) and issubclass(k, base) and k is not base]
    if len(kinds) != 1:
        raise TypeError(f"__all__ of {module.__name__} names {len(kinds)} {base.__name__} subclasses, not exactly one")
    return kinds[0]


def _builtin(name: str) -> str | None:
    # Without importing the package of built-in tasksets, which takes more than a second.
    packages = importlib.import_module("verifiers.v1").__path__
    spec = PathFinder.find_spec(name.lower(), [f"{p}/tasksets" for p in packages])
    return f"verifiers.v1.tasksets.{name.lower()}" if spec is not None else None


def _call(number: int, message: Any, nodes: list[Any]) -> Any:
    types = importlib.import_module("verifiers.v1.types")
    calls = importlib.import_module("verifiers.v1.trace")
    before = sum(len(str(n.message.content or "")) for n in nodes[:-1])
    usage = types.Usage(prompt_tokens=before // 4, completion_tokens=max(1, len(message.content or "") // 4))
    reason = "tool_calls" if message.tool_calls else "stop"
    return calls.ModelCall(node=number, model="scripted", finish_reason=reason, usage=usage)
