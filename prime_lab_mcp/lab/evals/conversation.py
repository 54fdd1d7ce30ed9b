"""What was said in one rollout, what the right answer was, and what its task says about itself; for every layout.

Built from the record of a Rollout when somebody asks, so reading a million rollouts for their rewards costs none of it;
it takes rollouts of `results.read`, since those of `results.scores` have no record. All text is foreign.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.evals.results import Rollout


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it: `arguments` is its raw text, JSON or not."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    """Of a tool's reply: the id of the call that it answers."""


def conversation(rollout: Rollout) -> list[Message]:
    """Every message in order: prompt, replies, tool calls and their results."""
    record = rollout.record
    if "nodes" in record:
        found: Iterator[Any] = (n.get("message") for n in record.get("nodes") or [] if isinstance(n, Mapping))
    else:
        asked, replied = record.get("prompt") or record.get("input"), record.get("completion") or record.get("output")
        found = iter([*_messages(asked, "user"), *_messages(replied, "assistant")])
    return [_message(m) for m in found if isinstance(m, Mapping)]


def offered_tools(rollout: Rollout) -> dict[str, Mapping[str, Any]]:
    """Name to parameter schema of every tool that the model was offered."""
    record = rollout.record
    listed = record.get("tools") or record.get("tool_defs") or []
    found = {}
    for tool in listed if isinstance(listed, Sequence) else ():
        if isinstance(tool, Mapping):
            inner = tool.get("function") if isinstance(tool.get("function"), Mapping) else tool
            if isinstance(inner, Mapping) and inner.get("name"):
                parameters = inner.get("parameters")
                found[str(inner["name"])] = parameters if isinstance(parameters, Mapping) else {}
    return found


def task_data(rollout: Rollout) -> Mapping[str, Any]:
    """The fields of the task: a v1 task's data, or what a v0 row or sample says beside its conversation."""
    record = rollout.record
    task = record.get("task")
    if isinstance(task, Mapping) and isinstance(task.get("data"), Mapping):
        return {k: v for k, v in task["data"].items() if k not in _OF_EVERY_TASK}
    info = record.get("info")
    if isinstance(info, str):
        info = _parsed(info)
    found = {k: record[k] for k in _OF_A_ROW if record.get(k) is not None}
    return {**(info if isinstance(info, Mapping) else {}), **found}


def gold(rollout: Rollout) -> str | None:
    """The right answer as text, where the task states one under a usual name."""
    data = task_data(rollout)
    for name in _GOLD:
        value = data.get(name)
        if isinstance(value, bool | int | float | str):
            return str(value)
    return None


_OF_EVERY_TASK = frozenset({
    "idx", "prompt", "system_prompt", "skills", "network_allow", "network_block", "artifacts", "artifact_max_bytes",
    "timeout", "resources", "image", "workdir",
})  # fmt: skip
"""Fields of vf.TaskData itself (verifiers 0.4.0)."""
_OF_A_ROW = ("answer", "task", "example_id")
_GOLD = ("answer", "gold", "target", "label", "expected", "ground_truth", "solution", "correct_answer")


def _messages(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return list(value) if isinstance(value, list) else []


def _message(raw: Mapping[str, Any]) -> Message:
    calls = raw.get("tool_calls") or ()
    return Message(
        role=str(raw.get("role") or "?"),
        text=_text(raw.get("content")),
        reasoning=_text(raw.get("reasoning_content") or raw.get("reasoning")),
        calls=tuple(_call(c) for c in calls if isinstance(c, Mapping | str)) if isinstance(calls, Sequence) else (),
        answers=str(raw.get("tool_call_id") or ""),
    )


def _call(raw: Mapping[str, Any] | str) -> ToolCall:
    # verifiers 0.1 saves each call as a string of JSON.
    if isinstance(raw, str):
        whole = _parsed(raw)
        if not isinstance(whole, Mapping):
            return ToolCall("", raw)
        raw = whole
    inner = raw.get("function") if isinstance(raw.get("function"), Mapping) else raw
    assert isinstance(inner, Mapping)
    arguments = inner.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {})
    return ToolCall(str(inner.get("name") or ""), text, str(raw.get("id") or ""))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text") or "") for p in content if isinstance(p, Mapping))
    return ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
