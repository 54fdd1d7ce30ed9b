"""Scores v1 traces: traces of scripted conversations, and traces that an earlier evaluation stored.

A stored trace is read as `vf-replay` reads it (verifiers 0.4.0, cli/replay.py), and the environment's current task
scores it with `Task.score`. The messages, model calls and `info` of the trace are those of the stored run.
Evaluations do not store `trace.state` or the runtime. A case whose reward reads them gets the problem `unstored`.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib
import inspect
import time
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Any

from . import coercion, config_v1
from .adapter import TaskIndex, digest
from .observer import Observation
from .protocol import ComponentReply, RescoreRequest, ScoreReply, StoredCase


def prompt_messages(v1: Any, data: Any) -> list[Any]:
    """Return the messages with which a rollout of this task begins."""
    head = [v1.SystemMessage(content=data.system_prompt)] if data.system_prompt else []
    if data.prompt is None:
        return head
    if isinstance(data.prompt, str):
        return [*head, v1.UserMessage(content=data.prompt)]
    return [*head, *data.prompt]


def scripted_trace(v1: Any, task: Any, completion: list[dict[str, Any]]) -> Any:
    """Return the trace of a rollout that is about to be scored, whose messages after the prompt are `completion`.

    Whatever a reward may read of a trace unnamed (rewards/rollout_reads.py) is as in a rollout of verifiers.
    """
    states = importlib.import_module("verifiers.v1.state")
    trace = v1.Trace(
        task=v1.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=states.state_cls(type(task))(),
        agent=v1.AgentInfo(config=v1.AgentConfig(runtime=v1.SubprocessConfig()), name="agent", trainable=True),
    )
    prompt = prompt_messages(v1, task.data)
    for number, message in enumerate([*prompt, *(_message(v1, m) for m in completion)]):
        sampled = number >= len(prompt) and message.role == "assistant"
        node = v1.MessageNode(parent=number - 1 if number else None, message=message, sampled=sampled)
        trace.nodes.append(node)
        if sampled:
            trace.calls.append(_call(number, message, trace.nodes))
    trace.stop("agent_completed")  # `ok` stays false: verifiers 0.4.0 sets it after scoring (v1/rollout.py, `close`).
    now = time.time()
    for span in (trace.timing.boot, trace.timing.setup, trace.timing.agent, trace.timing.finalize):
        span.start = span.end = now
    trace.timing.scoring.start = now
    return trace


def _message(v1: Any, raw: dict[str, Any]) -> Any:
    kinds = {"assistant": "AssistantMessage", "tool": "ToolMessage", "user": "UserMessage"}
    fields = {k: v for k, v in raw.items() if v is not None}
    if "tool_calls" in fields:
        fields["tool_calls"] = [{**c, **c["function"]} if "function" in c else c for c in fields["tool_calls"]]
        for call in fields["tool_calls"]:
            call.pop("function", None)
    if raw.get("role") == "assistant":  # A reply has all of these fields, and none of them holds an empty text or list.
        reply = ("content", "reasoning_content", "tool_calls", "provider_state")
        fields = {name: fields.get(name) or None for name in reply}
    return getattr(v1, kinds.get(raw.get("role", ""), "SystemMessage")).model_validate(fields)


def _call(number: int, message: Any, nodes: list[Any]) -> Any:
    types = importlib.import_module("verifiers.v1.types")
    calls = importlib.import_module("verifiers.v1.trace")
    before = sum(len(str(n.message.content or "")) for n in nodes[:-1])
    usage = types.Usage(prompt_tokens=before // 4, completion_tokens=max(1, len(message.content or "") // 4))
    reason = "tool_calls" if message.tool_calls else "stop"
    span = calls.TimeSpan(start=time.time(), end=time.time())
    endpoint = "/chat/completions"
    return calls.ModelCall(
        node=number, model="scripted", endpoint=endpoint, finish_reason=reason, usage=usage, time=span
    )


def hooks_use_runtime(task: Any) -> bool:
    """Return whether a reward, metric or judge of the task has a `runtime` parameter."""
    hooks = [*task.hooks("metric"), *task.hooks("reward"), *(j.score for j in task.plugged_judges())]
    return any("runtime" in inspect.signature(fn).parameters for fn in hooks)


def observed(task: Any, observation: Observation) -> Any:
    """Return a copy of the task whose reward and metric hooks are wrapped by an observer."""
    copied = copy.copy(task)
    copied.hooks = lambda attr: [_observed_hook(fn, attr, observation) for fn in task.hooks(attr)]
    return copied


def _observed_hook(fn: Any, attr: str, observation: Observation) -> Any:
    name = fn.__name__

    @functools.wraps(fn)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            value = fn(*args, **kwargs)
            if not inspect.isawaitable(value):
                observation.add_problem(f"sync-{attr}")
                raise TypeError(f"{name} is not async; verifiers awaits every {attr}")
            value = await value
        except BaseException as error:
            observation.add_exception(error, name)
            raise
        observation.check_value(value, name)
        return value

    if (signature := _signature(fn)) is not None:
        watched.__signature__ = signature  # type: ignore[attr-defined]
    return watched


_signatures: dict[Any, inspect.Signature] = {}
_MOST_SIGNATURES = 1000


def _signature(fn: Any) -> inspect.Signature | None:
    """Return the signature of a method, which verifiers asks for several times in each scoring; None if unknown."""
    if not inspect.ismethod(fn) or not inspect.isfunction(fn.__func__):
        return None
    known = _signatures.get(fn.__func__)
    if known is None and len(_signatures) < _MOST_SIGNATURES:
        known = _signatures[fn.__func__] = inspect.signature(fn)
    return known


def scoring_result(observation: Observation, trace: Any, ms: float) -> ScoreReply:
    """Build the reply for a scored trace. The reward is None if verifiers would record a failed rollout."""
    rewards = dict(trace.rewards) if trace is not None else {}
    components: dict[str, ComponentReply] = {
        coercion.text(n, 200): {
            "score": None if r is None else coercion.number(r.score),
            "weight": 1.0 if r is None else coercion.number(r.weight),
        }
        for n, r in rewards.items()
    }
    complete = trace is not None and not observation.errors and None not in rewards.values()
    metrics = trace.metrics if trace is not None else {}
    return observation.as_reply(
        coercion.number(trace.reward) if complete else None,
        ms,
        components,
        {coercion.text(n, 200): coercion.number(v) for n, v in metrics.items()},
    )


async def settled(scoring: Any) -> None:
    """Await a scoring, then wait up to one second for hooks that continue after another hook has raised."""
    before = asyncio.all_tasks()
    try:
        await scoring
    finally:
        rest = [t for t in asyncio.all_tasks() - before if not t.done()]
        if rest:
            await asyncio.wait(rest, timeout=1.0)


if TYPE_CHECKING:
    from .adapter_v1 import AdapterV1

_UNSEEN_FIELDS = frozenset({"idx", "id", "name", "description"})
"""Fields of every task that are not part of its question."""


class TaskIndexV1(TaskIndex):
    """The environment's tasks by two fingerprints: one of the question, and one of all data.

    The question consists of the fields that all tasks of verifiers have, such as the prompt, the system prompt and
    limits.
    """

    def __init__(self, adapter: AdapterV1, limit: int) -> None:
        self.adapter = adapter
        adapter.pull(limit, 60.0)
        self.shared = frozenset(adapter.v1.TaskData.model_fields)
        self.wire_data = importlib.import_module("verifiers.v1.task").WireTaskData
        self.rows_by_question: dict[str, list[int]] = {}
        self.data_digests: list[str] = []
        for row, task in enumerate(adapter.tasks):
            asked, whole = self._digests(task.data.model_dump(mode="json", exclude_none=True))
            self.rows_by_question.setdefault(asked, []).append(row)
            self.data_digests.append(whole)

    def _digests(self, data: dict[str, Any]) -> tuple[str, str]:
        """Return the fingerprints of a task's question and of all its data except the index."""
        asked = {k: v for k, v in data.items() if k in self.shared and k not in _UNSEEN_FIELDS}
        return digest(asked), digest({k: v for k, v in data.items() if k != "idx"})

    def find(self, stored: dict[str, Any], whole: bool) -> tuple[int | None, str]:
        data = self.wire_data.model_validate(stored["data"]).model_dump(mode="json", exclude_none=True)
        asked, everything = self._digests(data)
        rows = self.rows_by_question.get(asked, [])
        if not rows:
            return None, "prompt"
        same = [row for row in rows if self.data_digests[row] == everything]
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
        place = {row: asked for asked, rows in self.rows_by_question.items() for row in rows}
        return (place[row] for row in range(len(self.data_digests)))


def unfit_stored(adapter: AdapterV1) -> str:
    """Return why stored rollouts of this environment cannot be scored alone; an empty string if they can."""
    kind, base = config_v1.env_type(adapter), adapter.v1.SingleAgentEnv
    if not issubclass(kind, base) or kind.finalize is not base.finalize:
        return "its Env scores whole episodes, and a stored rollout is one trace"
    return ""


def score_stored(adapter: AdapterV1, case: StoredCase, request: RescoreRequest) -> ScoreReply:
    """Score one stored trace. Exceptions of the environment's code become part of the reply."""
    task, observation = adapter.tasks[case["row"]], Observation()
    adapter.remember_data(case["row"])
    trace: Any = None

    def start() -> Awaitable[None]:
        nonlocal trace
        trace = _trace(adapter, task, case["record"], observation, request)
        return _score(adapter, task, trace, observation, request)

    ms = adapter.run_scoring(observation, case["id"], request["case_timeout"], start)
    return scoring_result(observation, trace, ms)


def _trace(
    adapter: AdapterV1, task: Any, record: dict[str, Any], observation: Observation, request: RescoreRequest
) -> Any:
    """Return the stored trace as it was before the run scored it: stopped, not yet `ok`, and without scores."""
    traces = importlib.import_module("verifiers.v1.trace")
    states = importlib.import_module("verifiers.v1.state")
    trace = traces.WireTrace.model_validate(record)
    trace.task = adapter.v1.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    kind = states.state_cls(type(task))
    trace.state = (_recording_type(kind, observation) if request["turns"] else kind)()
    trace.rewards, trace.metrics, trace.extra_usage = {}, {}, []
    trace.info.pop("judge_calls", None)
    trace.is_completed, trace.ok = trace.stop_condition is not None, False
    return trace


def _recording_type(kind: Any, observation: Observation) -> Any:
    """Return a subclass of the state that notes each field that scoring reads before it writes the field."""
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
    watched = observed(task, observation)
    if not hooks_use_runtime(task):
        await settled(watched.score(trace))
        return
    if getattr(task, "NEEDS_CONTAINER", False) or not request["fresh_runtime"]:
        observation.add_problem("unstored", "runtime")
        return
    # The rollouts of the stored run wrote no files (`fresh_runtime`), so a new empty runtime equals theirs.
    runtimes = importlib.import_module("verifiers.v1.runtimes")
    async with runtimes.provision_runtime(adapter.v1.SubprocessConfig(), name=trace.id) as runtime:
        await settled(watched.score(trace, runtime))
