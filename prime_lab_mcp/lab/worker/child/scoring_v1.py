"""Scoring over a trace (v1): the trace of a scripted conversation, observed hooks, the result as a reply."""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib
import inspect
from typing import Any

from . import coercion
from .observer import Observation
from .protocol import ComponentReply, ScoreReply


def prompt_messages(v1: Any, data: Any) -> list[Any]:
    """The messages with which a rollout of this task begins."""
    head = [v1.SystemMessage(content=data.system_prompt)] if data.system_prompt else []
    if data.prompt is None:
        return head
    if isinstance(data.prompt, str):
        return [*head, v1.UserMessage(content=data.prompt)]
    return [*head, *data.prompt]


def scripted_trace(v1: Any, task: Any, completion: list[dict[str, Any]]) -> Any:
    """The trace of a completed rollout in which the model and its tools said `completion`."""
    states = importlib.import_module("verifiers.v1.state")
    trace = v1.Trace(
        task=v1.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=states.state_cls(type(task))(),
        agent=v1.AgentInfo(config=v1.AgentConfig(runtime=v1.SubprocessConfig()), name="agent", trainable=False),
    )
    prompt = prompt_messages(v1, task.data)
    for number, message in enumerate([*prompt, *(_message(v1, m) for m in completion)]):
        sampled = number >= len(prompt) and message.role == "assistant"
        node = v1.MessageNode(parent=number - 1 if number else None, message=message, sampled=sampled)
        trace.nodes.append(node)
        if sampled:
            trace.calls.append(_call(number, message, trace.nodes))
    trace.is_completed = trace.ok = True
    trace.stop_condition = "agent_completed"
    return trace


def _message(v1: Any, raw: dict[str, Any]) -> Any:
    kinds = {"assistant": "AssistantMessage", "tool": "ToolMessage", "user": "UserMessage"}
    fields = {k: v for k, v in raw.items() if v is not None}
    if "tool_calls" in fields:
        fields["tool_calls"] = [{**c, **c["function"]} if "function" in c else c for c in fields["tool_calls"]]
        for call in fields["tool_calls"]:
            call.pop("function", None)
    return getattr(v1, kinds.get(raw.get("role", ""), "SystemMessage")).model_validate(fields)


def _call(number: int, message: Any, nodes: list[Any]) -> Any:
    types = importlib.import_module("verifiers.v1.types")
    calls = importlib.import_module("verifiers.v1.trace")
    before = sum(len(str(n.message.content or "")) for n in nodes[:-1])
    usage = types.Usage(prompt_tokens=before // 4, completion_tokens=max(1, len(message.content or "") // 4))
    reason = "tool_calls" if message.tool_calls else "stop"
    return calls.ModelCall(node=number, model="scripted", finish_reason=reason, usage=usage)


def hooks_use_runtime(task: Any) -> bool:
    """Whether a reward, metric or judge of the task takes the runtime."""
    hooks = [*task.hooks("metric"), *task.hooks("reward"), *(j.score for j in task.plugged_judges())]
    return any("runtime" in inspect.signature(fn).parameters for fn in hooks)


def observed(task: Any, observation: Observation) -> Any:
    """A copy of the task whose hooks are observed."""
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

    return watched


def scoring_result(observation: Observation, trace: Any, ms: float) -> ScoreReply:
    """The scored case. The reward is null where verifiers would have recorded a failed rollout."""
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
    """Await a scoring, and then hooks that go on after another one raised."""
    before = asyncio.all_tasks()
    try:
        await scoring
    finally:
        rest = [t for t in asyncio.all_tasks() - before if not t.done()]
        if rest:
            await asyncio.wait(rest, timeout=1.0)
