"""Scores v1 rollouts that an earlier evaluation stored, with the present taskset.

A stored trace is read back as `vf-replay` does (verifiers 0.4.0, cli/replay.py) and scored through `Task.score` of the
present task, so its messages, calls and notes are those of the run. `trace.state` and the runtime are not stored; a
reward that reads them gets the problem `unstored`.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Any

from . import config_v1, scoring_v1
from .observer import Observation
from .protocol import RescoreRequest, ScoreReply, StoredCase
from .stored_rollouts import TaskIndex, digest

if TYPE_CHECKING:
    from .adapter_v1 import AdapterV1

_NAMES = frozenset({"idx", "id", "name", "description"})
"""Fields of every task that the model does not see."""


class TaskIndexV1(TaskIndex):
    """The present tasks by two fingerprints: of the question (prompt, system prompt, limits, tools' files), and of all
    data.
    """

    def __init__(self, adapter: AdapterV1, limit: int) -> None:
        self.adapter = adapter
        adapter.pull(limit, 60.0)
        self.shared = frozenset(adapter.v1.TaskData.model_fields)
        self.wire = importlib.import_module("verifiers.v1.task").WireTaskData
        self.asked: dict[str, list[int]] = {}
        self.whole: list[str] = []
        for row, task in enumerate(adapter.tasks):
            asked, whole = self._digests(task.data.model_dump(mode="json", exclude_none=True))
            self.asked.setdefault(asked, []).append(row)
            self.whole.append(whole)

    def _digests(self, data: dict[str, Any]) -> tuple[str, str]:
        """Fingerprints of a task's question, and of all its data except its index."""
        asked = {k: v for k, v in data.items() if k in self.shared and k not in _NAMES}
        return digest(asked), digest({k: v for k, v in data.items() if k != "idx"})

    def find(self, stored: dict[str, Any], whole: bool) -> tuple[int | None, str]:
        data = self.wire.model_validate(stored["data"]).model_dump(mode="json", exclude_none=True)
        asked, everything = self._digests(data)
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

    def record(self, row: int) -> dict[str, Any]:
        task = self.adapter.tasks[row]
        return {
            "type": type(task).__name__,
            "data": task.data.model_dump(mode="json", exclude_none=True),
            "hash": task.hash,
        }

    def fingerprints(self) -> Iterator[str]:
        place = {row: asked for asked, rows in self.asked.items() for row in rows}
        return (place[row] for row in range(len(self.whole)))


def unfit(adapter: AdapterV1) -> str:
    """Why no stored rollout of this environment can be scored alone; empty where each can."""
    kind, base = config_v1.env_type(adapter), adapter.v1.SingleAgentEnv
    if not issubclass(kind, base) or kind.finalize is not base.finalize:
        return "its Env scores whole episodes, and a stored rollout is one trace"
    return ""


def score(adapter: AdapterV1, case: StoredCase, request: RescoreRequest) -> ScoreReply:
    """Score one stored trace. Whatever the environment's code raises is part of the result."""
    task, observation = adapter.tasks[case["row"]], Observation()
    adapter.remember(case["row"])
    trace: Any = None

    def start() -> Awaitable[None]:
        nonlocal trace
        trace = _trace(adapter, task, case["record"], observation, request)
        return _score(adapter, task, trace, observation, request)

    ms = adapter.run_scoring(observation, case["id"], request["case_timeout"], start)
    return scoring_v1.scoring_result(observation, trace, ms)


def _trace(
    adapter: AdapterV1, task: Any, record: dict[str, Any], observation: Observation, request: RescoreRequest
) -> Any:
    """The trace in its state before the run scored it: not completed, without scores."""
    traces = importlib.import_module("verifiers.v1.trace")
    states = importlib.import_module("verifiers.v1.state")
    trace = traces.WireTrace.model_validate(record)
    trace.task = adapter.v1.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    kind = states.state_cls(type(task))
    trace.state = (_recording_type(kind, observation) if request["turns"] else kind)()
    trace.rewards, trace.metrics, trace.extra_usage = {}, {}, []
    trace.info.pop("judge_calls", None)
    trace.is_completed = trace.ok = False
    return trace


def _recording_type(kind: Any, observation: Observation) -> Any:
    """A subclass of the state that notes every field that is read before scoring writes that field."""
    names, written = set(kind.model_fields), set()

    def read(self: Any, name: str) -> Any:
        if name in names and name not in written:
            observation.add_problem("unstored", f"trace.state.{name}"[:120])
        return kind.__getattribute__(self, name)

    def write(self: Any, name: str, value: Any) -> None:
        written.add(name)
        kind.__setattr__(self, name, value)

    return type(
        kind.__name__,
        (kind,),
        {
            "__getattribute__": read,
            "__setattr__": write,
            "__module__": kind.__module__,
        },
    )


async def _score(adapter: AdapterV1, task: Any, trace: Any, observation: Observation, request: RescoreRequest) -> None:
    watched = scoring_v1.observed(task, observation)
    if not scoring_v1.hooks_use_runtime(task):
        await scoring_v1.settled(watched.score(trace))
        return
    if getattr(task, "NEEDS_CONTAINER", False) or not request["fresh_runtime"]:
        observation.add_problem("unstored", "runtime")
        return
    # A plain chat writes nothing to its folder, so the run scored in an empty folder.
    runtimes = importlib.import_module("verifiers.v1.runtimes")
    async with runtimes.provision_runtime(adapter.v1.SubprocessConfig(), name=trace.id) as runtime:
        await scoring_v1.settled(watched.score(trace, runtime))
