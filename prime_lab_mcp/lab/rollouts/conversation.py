"""The conversation of one rollout, its reference answer and the fields of its task, for every layout.

The functions parse `Rollout.record` on demand, so that reading a million rollouts for their rewards costs nothing here.
Rollouts of `read_scores` have no record and give empty results. All text is foreign.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.rollouts.rollout import Rollout


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it. `arguments` is the raw text, which may be invalid JSON."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, in the same form for every layout."""

    role: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    """Id of the tool call that a tool message answers."""


def conversation(rollout: Rollout) -> list[Message]:
    """Return every message in order: prompt, replies, tool calls and tool results."""
    record = rollout.record
    if "nodes" in record:
        messages: Iterator[Any] = (n.get("message") for n in record.get("nodes") or [] if isinstance(n, Mapping))
    else:
        prompt = record.get("prompt") or record.get("input")
        completion = record.get("completion") or record.get("output")
        messages = iter([*_messages(prompt, "user"), *_messages(completion, "assistant")])
    return [_message(m) for m in messages if isinstance(m, Mapping)]


def offered_tools(rollout: Rollout) -> dict[str, Mapping[str, Any]]:
    """Map the name of every tool that the model was offered to the schema of its parameters."""
    record = rollout.record
    tools = record.get("tools") or record.get("tool_defs") or []
    schemas = {}
    for tool in tools if isinstance(tools, Sequence) else ():
        if isinstance(tool, Mapping):
            inner = tool.get("function") if isinstance(tool.get("function"), Mapping) else tool
            if isinstance(inner, Mapping) and inner.get("name"):
                parameters = inner.get("parameters")
                schemas[str(inner["name"])] = parameters if isinstance(parameters, Mapping) else {}
    return schemas


def task_data(rollout: Rollout) -> Mapping[str, Any]:
    """Return the fields of the task: the data of a v1 task, or the fields of a v0 row or sample beside its
    conversation."""
    record = rollout.record
    task = record.get("task")
    if isinstance(task, Mapping) and isinstance(task.get("data"), Mapping):
        return {k: v for k, v in task["data"].items() if k not in _COMMON_TASK_FIELDS}
    info = record.get("info")
    if isinstance(info, str):
        info = _parsed(info)
    fields = {k: record[k] for k in _ROW_FIELDS if record.get(k) is not None}
    return {**(info if isinstance(info, Mapping) else {}), **fields}


def gold(rollout: Rollout) -> str | None:
    """Return the reference answer as text if the task stores one under a usual name."""
    data = task_data(rollout)
    for name in _GOLD_FIELDS:
        value = data.get(name)
        if isinstance(value, bool | int | float | str):
            return str(value)
    return None


_COMMON_TASK_FIELDS = frozenset(
    {
        "idx",
        "prompt",
        "system_prompt",
        "skills",
        "network_allow",
        "network_block",
        "artifacts",
        "artifact_max_bytes",
        "timeout",
        "resources",
        "image",
        "workdir",
    }
)
"""Fields that every vf.TaskData has (verifiers 0.4.0)."""
_ROW_FIELDS = ("answer", "task", "example_id")
_GOLD_FIELDS = ("answer", "gold", "target", "label", "expected", "ground_truth", "solution", "correct_answer")


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
        parsed = _parsed(raw)
        if not isinstance(parsed, Mapping):
            return ToolCall("", raw)
        raw = parsed
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
