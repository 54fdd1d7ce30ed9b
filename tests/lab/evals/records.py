"""Small records of both generations, as vf-eval writes them, for what one rollout said and called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.rollouts.reading import Layout, parse_record
from prime_lab_mcp.lab.rollouts.rollout import Rollout

PROMPT = "What is 1+2? Put it in <answer></answer>."
PARAMETERS = {
    "type": "object",
    "properties": {"first": {"type": "integer"}, "more": {"type": "object"}},
    "required": ["first"],
}
ADD = {"name": "add", "description": "", "parameters": PARAMETERS}


def call(arguments: str, name: str = "add", id: str = "c0") -> dict[str, str]:
    return {"id": id, "name": name, "arguments": arguments}


def said(
    text: str = "", *calls: dict[str, str], finish: str | None = None, tokens: int = 10, reasoning: str | None = None
) -> dict[str, Any]:
    """A reply and how the server says it ended."""
    message = {"role": "assistant", "content": text, "tool_calls": list(calls) or None, "reasoning_content": reasoning}
    return {"message": message, "finish": finish or ("tool_calls" if calls else "stop"), "tokens": tokens}


def result(text: str, id: str = "c0") -> dict[str, Any]:
    return {"message": {"role": "tool", "content": text, "tool_call_id": id}}


def v1(
    turns: Sequence[Mapping[str, Any]],
    rewards: Mapping[str, float] | None = None,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    prompt: str = PROMPT,
    **changes: Any,
) -> Rollout:
    """One rollout of a v1 trace. Rewards default to an answer in form that is wrong."""
    nodes: list[dict[str, Any]] = [{"message": {"role": "user", "content": prompt}, "sampled": False}]
    calls = []
    for turn in turns:
        if "finish" in turn:
            usage = {"prompt_tokens": 5, "completion_tokens": turn["tokens"]}
            calls.append({"node": len(nodes), "finish_reason": turn["finish"], "usage": usage})
        nodes.append({"message": turn["message"], "sampled": "finish" in turn})
    scores = {"correct": 0.0, "answer_format": 1.0} if rewards is None else rewards
    trace = {
        "id": "t1",
        "task": {"key": "k1", "data": {"idx": 0}},
        "agent": {"name": "agent", "trainable": True},
        "nodes": nodes,
        "calls": calls,
        "tools": list(tools),
        "metrics": {},
        "info": {},
        "ok": True,
        "errors": [],
        "rewards": {name: {"score": score, "weight": 1.0} for name, score in scores.items()},
        "stop_condition": "agent_completed",
        "num_output_tokens": sum(t.get("tokens", 0) for t in turns),
    } | changes
    return _only({"id": "e1", "task": {"key": "k1"}, "traces": [trace], "errors": [], "ok": True}, "v1")


def v0(
    turns: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, float] | None = None,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    prompt: str = PROMPT,
    **changes: Any,
) -> Rollout:
    """One row of a v0 results file: calls are strings of JSON, and only the sum of tokens is known."""
    completion = []
    for turn in turns:
        message = dict(turn["message"])
        if message.get("tool_calls"):
            message["tool_calls"] = [json.dumps(c) for c in message["tool_calls"]]
        completion.append(message)
    scores = {"correct": 0.0, "answer_format": 1.0} if metrics is None else dict(metrics)
    row = {
        "example_id": 3,
        "prompt": [{"role": "user", "content": prompt}],
        "completion": completion,
        "answer": "3",
        "reward": scores.get("correct", 0.0),
        "error": None,
        "timing": {"total": 1.5},
        "is_truncated": any(t.get("finish") == "length" for t in turns),
        "stop_condition": "no_tools_called",
        "metrics": scores,
        "tool_defs": list(tools),
        "token_usage": {"input_tokens": 9, "output_tokens": sum(t.get("tokens", 0) for t in turns)},
    } | changes
    return _only(row, "v0")


def document(text: str, **changes: Any) -> Rollout:
    """A sample as the platform prints it, which says nothing of how the reply ended."""
    row = {"example_id": 1, "prompt": [{"role": "user", "content": PROMPT}], "completion": text, "reward": 0.0}
    return _only(row | changes, "document")


def _only(record: dict[str, Any], layout: Layout) -> Rollout:
    [rollout] = parse_record(record, layout)
    return rollout
