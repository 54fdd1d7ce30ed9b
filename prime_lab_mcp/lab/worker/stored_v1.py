"""Scores rollouts that an earlier evaluation stored, with the present taskset; the v1 adapter's part.

A stored trace is read back as `vf-replay` does (verifiers 0.4.0, cli/replay.py) and scored through `Task.score` of the
present task, so what was said, called and noted is what the run saw. Not stored, and therefore told as a problem when a
reward asks for it: `trace.state`, and the runtime.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import importlib
import inspect
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

_NAMES = frozenset({"idx", "id", "name", "description"})
"""Fields of every task that tell nothing to the model."""


def _sibling(name: str) -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling(name)


def digest(value: Any) -> str:
    """A short fingerprint of JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:24]


class Tasks:
    """The present tasks by what they ask (prompt, system prompt, limits, tools' files) and by all they hold."""

    def __init__(self, adapter: Any, limit: int) -> None:
        self.adapter = adapter
        adapter._pull(limit, 60.0)
        self.shared = frozenset(adapter.v1.TaskData.model_fields)
        self.wire = importlib.import_module("verifiers.v1.task").WireTaskData
        self.asked: dict[str, list[int]] = {}
        self.whole: list[str] = []
        for row, task in enumerate(adapter.tasks):
            asked, whole = self.prints(task.data.model_dump(mode="json", exclude_none=True))
            self.asked.setdefault(asked, []).append(row)
            self.whole.append(whole)

    def prints(self, data: dict[str, Any]) -> tuple[str, str]:
        """Fingerprints of what a task asks, and of all of it but its place."""
        asked = {k: v for k, v in data.items() if k in self.shared and k not in _NAMES}
        return digest(asked), digest({k: v for k, v in data.items() if k != "idx"})

    def find(self, stored: dict[str, Any], whole: bool) -> tuple[int | None, str]:
        """The present row of a stored task; or None, and why there is none."""
        data = self.wire.model_validate(stored["data"]).model_dump(mode="json", exclude_none=True)
        asked, everything = self.prints(data)
        rows = self.asked.get(asked, [])
        if not rows:
            return None, "prompt"
        same = [row for row in rows if self.whole[row] == everything]
        if same:
            return same[0], ""
        if whole:
            return None, "data"
        place = data.get("idx")
        if len(rows) > 1:
            rows = [row for row in rows if row == place]
        return (rows[0], "") if rows else (None, "ambiguous")

    def told(self, row: int) -> dict[str, Any]:
        """The task as a new record of a rollout holds it."""
        task = self.adapter.tasks[row]
        return {
            "type": type(task).__name__,
            "data": task.data.model_dump(mode="json", exclude_none=True),
            "hash": task.hash,
        }

    def all(self) -> Iterator[str]:
        """What every task asks, in order."""
        place = {row: asked for asked, rows in self.asked.items() for row in rows}
        return (place[row] for row in range(len(self.whole)))


def tasks(adapter: Any, limit: int) -> Tasks:
    """The index of this environment's tasks, built once."""
    known: Tasks | None = getattr(adapter, "stored", None)
    if known is None:
        known = adapter.stored = Tasks(adapter, limit)
    return known


def unfit(adapter: Any) -> str:
    """Why no stored rollout of this environment can be scored alone; empty when nothing speaks against it."""
    kind, base = _sibling("rollouts_v1")._env_type(adapter), adapter.v1.SingleAgentEnv
    if not issubclass(kind, base) or kind.finalize is not base.finalize:
        return "its Env scores whole episodes, and a stored rollout is one trace"
    return ""


def score(adapter: Any, case: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Score one stored trace; whatever the environment's code raises is part of the result."""
    module = sys.modules[type(adapter).__module__]
    task, timeout = adapter.tasks[case["row"]], request["case_timeout"]
    seen = _sibling("watch").Seen()
    loop = adapter._loop(case["row"])
    trace: Any = None
    started = time.perf_counter()
    try:
        trace = _trace(adapter, task, case["record"], seen, request)
        with _sibling("audit").watching(seen, case["id"]):
            loop.run_until_complete(asyncio.wait_for(_score(adapter, task, trace, seen, request), timeout))
    except BaseException as error:
        seen.failed(error, time.perf_counter() - started, timeout)
        if not isinstance(error, Exception):
            adapter.loop = None
    seconds = time.perf_counter() - started
    seen.late(seconds, timeout, first=not adapter.scored)
    adapter.scored = True
    _sibling("audit").look_behind(seen)
    found: dict[str, Any] = module._result(adapter.plain, seen, trace, seconds * 1000)
    return found


def _trace(adapter: Any, task: Any, record: dict[str, Any], seen: Any, request: dict[str, Any]) -> Any:
    """The trace as it stood when the run scored it: not yet completed, without scores."""
    traces = importlib.import_module("verifiers.v1.trace")
    states = importlib.import_module("verifiers.v1.state")
    trace = traces.WireTrace.model_validate(record)
    trace.task = adapter.v1.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    kind = states.state_cls(type(task))
    trace.state = (_noting(kind, seen) if request["turns"] else kind)()
    trace.rewards, trace.metrics, trace.extra_usage = {}, {}, []
    trace.info.pop("judge_calls", None)
    trace.is_completed = trace.ok = False
    return trace


def _noting(kind: Any, seen: Any) -> Any:
    """The state's class, which notes a field that is read before scoring itself has written it."""
    names, written = set(kind.model_fields), set()

    def read(self: Any, name: str) -> Any:
        if name in names and name not in written:
            seen.problem(f"unstored:trace.state.{name}"[:120])
        return kind.__getattribute__(self, name)

    def write(self: Any, name: str, value: Any) -> None:
        written.add(name)
        kind.__setattr__(self, name, value)

    return type(kind.__name__, (kind,), {
        "__getattribute__": read, "__setattr__": write, "__module__": kind.__module__,
    })  # fmt: skip


async def _score(adapter: Any, task: Any, trace: Any, seen: Any, request: dict[str, Any]) -> None:
    module = sys.modules[type(adapter).__module__]
    watched = copy.copy(task)
    watched.hooks = lambda attr: [module._watched(fn, attr, seen) for fn in task.hooks(attr)]
    if not _asks_for_runtime(task):
        await module._settled(watched.score(trace))
        return
    if getattr(task, "NEEDS_CONTAINER", False) or not request["fresh_runtime"]:
        seen.problem("unstored:runtime")
        return
    # A plain chat leaves nothing in its folder, so an empty one is what the run scored in.
    runtimes = importlib.import_module("verifiers.v1.runtimes")
    async with runtimes.provision_runtime(adapter.v1.SubprocessConfig(), name=trace.id) as runtime:
        await module._settled(watched.score(trace, runtime))


def _asks_for_runtime(task: Any) -> bool:
    hooks = [*task.hooks("metric"), *task.hooks("reward"), *(j.score for j in task.plugged_judges())]
    return any("runtime" in inspect.signature(fn).parameters for fn in hooks)
