"""Conversations of rollouts, from records as each generation writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.rollouts.conversation import Message, ToolCall, conversation, gold, offered_tools, task_data
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout

PARAMETERS = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
WHOLE, CUT = '{"expression": "3+4"}', '{"expression": "3+'
SAID = [
    Message("system", "Use the tools."),
    Message("user", "What is 3+4?"),
    Message("assistant", "", "Let me see.", (ToolCall("calculate", WHOLE, "c1"), ToolCall("calculate", CUT, "c2"))),
    Message("tool", "7", answers="c1"),
    Message("tool", "no JSON", answers="c2"),
    Message("assistant", "<answer>7</answer>"),
]


def the_only(path: Path, record: dict[str, Any]) -> Rollout:
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    [found] = read_rollouts(path)
    return found


@pytest.fixture
def v1(tmp_path: Path) -> Rollout:
    """As verifiers 0.4.0 writes an episode with tools: calls are flat, and nothing that is None is there."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Use the tools."},
        {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "3+4?"}]},
        {
            "role": "assistant",
            "reasoning_content": "Let me see.",
            "tool_calls": [
                {"id": "c1", "type": "function", "name": "calculate", "arguments": WHOLE},
                {"id": "c2", "type": "function", "name": "calculate", "arguments": CUT},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
        {"role": "tool", "tool_call_id": "c2", "content": "no JSON"},
        {"role": "assistant", "content": "<answer>7</answer>"},
    ]
    task = {
        "type": "T",
        "key": "k",
        "data": {
            "idx": 0,
            "prompt": "What is 3+4?",
            "skills": [],
            "network_allow": ["*"],
            "timeout": {},
            "resources": {},
            "answer": "7",
            "level": 2,
        },
    }
    trace = {
        "id": "t",
        "task": task,
        "agent": {"name": "agent", "trainable": True},
        "ok": True,
        "errors": [],
        "tools": [{"type": "function", "name": "calculate", "description": "d", "parameters": PARAMETERS}],
        "nodes": [{"message": m, "sampled": m["role"] == "assistant"} for m in messages],
        "calls": [],
        "rewards": {"r": {"score": 1.0, "weight": 1.0}},
        "metrics": {},
    }
    return the_only(tmp_path / "traces.jsonl", {"id": "e", "task": task, "traces": [trace], "ok": True})


@pytest.fixture
def v0(tmp_path: Path) -> Rollout:
    """As verifiers 0.1.14 writes a row with tools: each call is a string of JSON."""
    calls = [{"id": i, "name": "calculate", "arguments": a} for i, a in (("c1", WHOLE), ("c2", CUT))]
    row = {
        "example_id": 0,
        "prompt": [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": "What is 3+4?"}],
        "completion": [
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "Let me see.",
                "thinking_blocks": None,
                "tool_calls": [json.dumps(c) for c in calls],
            },
            {"role": "tool", "content": "7", "tool_call_id": "c1"},
            {"role": "tool", "content": "no JSON", "tool_call_id": "c2"},
            {"role": "assistant", "content": "<answer>7</answer>", "reasoning_content": None, "tool_calls": None},
        ],
        "answer": "7",
        "info": {"level": 2},
        "reward": 1.0,
        "error": None,
        "timing": {"total": 1.0},
        "metrics": {"correct": 1.0},
        "is_truncated": False,
        "stop_condition": "no_tools_called",
        "tool_defs": [{"name": "calculate", "description": "d", "parameters": PARAMETERS, "strict": None}],
    }
    return the_only(tmp_path / "results.jsonl", row)


@pytest.fixture
def sample(tmp_path: Path) -> Rollout:
    """As the platform prints a sample of a hosted evaluation, with calls as OpenAI nests them."""
    calls = [
        {"id": i, "type": "function", "function": {"name": "calculate", "arguments": a}}
        for i, a in (("c1", WHOLE), ("c2", CUT))
    ]
    record = {
        "id": "smp_1",
        "example_id": 0,
        "reward": 1.0,
        "answer": "7",
        "info": '{"level": 2, "answer": "other"}',
        "prompt": [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": "What is 3+4?"}],
        "completion": [
            {"role": "assistant", "content": "", "reasoning": "Let me see.", "tool_calls": calls},
            {"role": "tool", "content": "7", "tool_call_id": "c1"},
            {"role": "tool", "content": "no JSON", "tool_call_id": "c2"},
            {"role": "assistant", "content": "<answer>7</answer>"},
        ],
        "tools": [{"type": "function", "function": {"name": "calculate", "parameters": PARAMETERS}}],
    }
    return the_only(tmp_path / "samples.jsonl", record)


@pytest.mark.parametrize("layout", ["v1", "v0", "sample"])
def test_every_layout_tells_the_same_conversation(layout: str, request: pytest.FixtureRequest) -> None:
    rollout: Rollout = request.getfixturevalue(layout)

    assert conversation(rollout) == SAID
    assert offered_tools(rollout) == {"calculate": PARAMETERS}
    assert gold(rollout) == "7"
    assert task_data(rollout)["level"] == 2
    assert rollout.completion_text == "<answer>7</answer>"


def test_the_data_of_a_v1_task_is_without_what_every_task_has(v1: Rollout) -> None:
    assert task_data(v1) == {"answer": "7", "level": 2}


def test_texts_in_place_of_messages_are_messages(tmp_path: Path) -> None:
    record = {"example_id": 1, "score": 0.5, "input": "What is 1+1?", "output": "two"}

    found = the_only(tmp_path / "samples.jsonl", record)
    assert conversation(found) == [Message("user", "What is 1+1?"), Message("assistant", "two")]
    assert (found.completion_text, gold(found)) == ("two", None)


def test_a_call_that_is_no_json_is_kept_as_it_was_written(tmp_path: Path) -> None:
    reply = {"role": "assistant", "content": None, "tool_calls": ["<calc>3+4", 7, {"arguments": {"a": 1}}]}
    found = the_only(tmp_path / "samples.jsonl", {"example_id": 1, "reward": 0.0, "completion": [reply, "noise"]})

    [message] = conversation(found)
    assert message.calls == (ToolCall("", "<calc>3+4"), ToolCall("", '{"a": 1}'))


def test_a_failed_rollout_has_the_prompt_only(tmp_path: Path) -> None:
    row = {
        "example_id": 3,
        "prompt": [{"role": "user", "content": "1+1"}],
        "completion": [],
        "reward": 0.0,
        "error": {"error": "ModelError", "error_chain_str": "ModelError -> 503"},
        "timing": {"total": 1.5},
    }

    assert conversation(the_only(tmp_path / "results.jsonl", row)) == [Message("user", "1+1")]
