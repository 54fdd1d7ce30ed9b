"""Models that fail in one stated way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from prime_lab_mcp.rehearsal.zeros import KINDS, kind_of

CHAT = "/inference/v1/chat/completions"
PROMPT = "What is 3+4? Put it in <answer></answer>."


def tool(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"first": {"type": "integer"}}, "required": ["first"]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def ask(client: TestClient, kind: str, prompt: str = PROMPT, *more: dict[str, Any], **body: Any) -> Any:
    messages = [{"role": "user", "content": prompt}, *more]
    return client.post(CHAT, json={"model": f"rehearsal/zero-{kind}", "messages": messages, "max_tokens": 64, **body})


def choice(answer: Any) -> tuple[str, str | None, list[tuple[str, str]]]:
    [one] = answer.json()["choices"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in one["message"].get("tool_calls") or ()]
    return one["finish_reason"], one["message"]["content"], calls


@pytest.mark.parametrize(
    ("kind", "finish", "calls"),
    [
        ("wrong", "tool_calls", [("add", '{"first": 1}')]),
        ("malformed-tool-json", "tool_calls", [("add", '{"first" = 1}')]),
        ("truncated-call", "length", [("add", '{"first": 1, "note": "first this, the')]),
        ("double-encoded", "tool_calls", [("add", '"{\\"first\\": 1}"')]),
        ("unknown-tool", "tool_calls", [("add_v2", '{"first": 1}')]),
        ("bad-arguments", "tool_calls", [("add", '{"first_": 1}')]),
        ("tool-timeout", "tool_calls", [("wait", '{"first": 1}')]),
        ("no-tool-call", "stop", []),
        ("empty-response", "stop", []),
        ("truncated", "length", []),
        ("fenced-call", "stop", []),
    ],
)
def test_each_calls_in_its_way(client: TestClient, kind: str, finish: str, calls: list[tuple[str, str]]) -> None:
    named = choice(ask(client, kind, tools=[tool("add"), tool("wait")]))
    asked = choice(ask(client, "asked", f"{PROMPT} (zero-{kind})", tools=[tool("add"), tool("wait")]))

    assert (named[0], named[2]) == (asked[0], asked[2]) == (finish, calls)


def test_none_is_ever_right_and_each_answers_after_its_call(client: TestClient) -> None:
    before = {"role": "assistant", "content": "", "tool_calls": []}
    for kind in set(KINDS) - {"infrastructure", "unparsed", "truncated", "empty-response"}:
        finish, text, calls = choice(ask(client, kind, PROMPT, before, tools=[tool("add")]))
        assert (finish, calls) == ("stop", [])
        assert text is not None
        assert "<answer>" in text
        assert "<answer>7</answer>" not in text


def test_one_fails_and_one_judges_without_a_verdict(client: TestClient) -> None:
    assert ask(client, "infrastructure").status_code == 503
    assert ask(client, "asked", f"{PROMPT} (zero-infrastructure)").status_code == 503
    asked = "Question: 1+1\nReference answer: 2\nResponse: 3\nIs the response right? yes or no"
    assert "circumstances" in str(choice(ask(client, "judge-unparsed", asked))[1])


def test_a_kind_that_there_is_not_is_no_model(client: TestClient) -> None:
    assert kind_of("rehearsal/zero-nothing") is kind_of("Qwen/Qwen3-0.6B") is None
    assert ask(client, "nothing").status_code == 404


def test_a_streamed_call_is_the_same(client: TestClient) -> None:
    whole = choice(ask(client, "malformed-tool-json", tools=[tool("add")]))[2]
    lines = ask(client, "malformed-tool-json", tools=[tool("add")], stream=True).text.split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
    [streamed] = [d["tool_calls"][0]["function"] for d in deltas if "tool_calls" in d]

    assert [(streamed["name"], streamed["arguments"])] == whole
