"""The template tool_call: when calls are the calls that are wanted, and the forms in which datasets write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.templates.loading import modules

_LOADED = modules("tool_call", "answers", "shape", "calls")
answers, shape = _LOADED["answers"], _LOADED["shape"]
WEATHER = {"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}
NOTE = {"name": "send_note", "arguments": {"to": "Ann", "text": "a < b", "urgent": False}}
FUNCTIONS = [{"name": "get_weather", "description": "Weather."}, {"name": "send_note", "description": "A note."}]


def tag(*calls: Any) -> str:
    return "\n".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls)


def paid(reply: str, gold: Any) -> float:
    held = answers.gold_of({"answer": gold})
    assert held is not None
    return answers.score(reply, held)


def test_a_call_is_right_whatever_the_order_of_its_arguments_and_what_else_it_carries() -> None:
    turned = {"id": "call_1", "arguments": {"days": 3.0, "city": " Oslo "}, "name": "get_weather", "type": "function"}
    assert paid(f"<think>{tag(NOTE)}</think>I look. {tag(turned)} Done.", WEATHER) == 1.0


def test_parallel_calls_are_right_in_any_order_in_tags_of_their_own_or_in_one_list() -> None:
    for reply in (tag(WEATHER, NOTE), tag(NOTE, WEATHER), tag([NOTE, WEATHER])):
        assert paid(reply, [WEATHER, NOTE]) == 1.0


def test_a_worked_example_shows_arguments_with_decimals() -> None:
    price = {"name": "convert", "arguments": {"amount": 342.5}}
    for gold in ([price], [price, WEATHER]):
        held = answers.gold_of({"answer": gold})
        assert "342.5" in answers.reply_with(held)
        assert paid(answers.reply_with(held), gold) == 1.0


def test_calls_are_a_multiset() -> None:
    assert paid(tag(NOTE, NOTE), [NOTE, NOTE]) == 1.0
    assert paid(tag(NOTE), [NOTE, NOTE]) == 0.0
    assert paid(tag(NOTE, NOTE), NOTE) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        {**WEATHER, "name": "get_forecast"},
        {**WEATHER, "arguments": {"city": "Oslo"}},
        {**WEATHER, "arguments": {"city": "Oslo", "days": 3, "unit": "C"}},
        {**WEATHER, "arguments": {"city": "Oslo", "days": "3"}},
        {**WEATHER, "arguments": {"city": "oslo", "days": 3}},
        {**WEATHER, "arguments": {"city": "Oslo", "days": True}},
        {**WEATHER, "arguments": {}},
    ],
)
def test_a_call_with_another_name_or_other_arguments_is_wrong_but_in_form(call: dict[str, Any]) -> None:
    assert paid(tag(call), WEATHER) == 0.0
    assert answers.in_form(tag(call))


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(WEATHER),
        tag({**WEATHER, "arguments": json.dumps(WEATHER["arguments"])}),
        tag({"name": "get_weather", "parameters": WEATHER["arguments"]}),
        tag(WEATHER)[:-1],
        tag(WEATHER).replace("</tool_call>", ""),
        f"<tool_call>{tag(WEATHER)}</tool_call>",
        tag(WEATHER) + "<tool_call>{broken</tool_call>",
        f"<think>{tag(WEATHER)}",
        "<tool_call>[]</tool_call>",
        "<tool_call></tool_call>",
        "<tool_call>get_weather(city='Oslo', days=3)</tool_call>",
        "",
    ],
)
def test_arguments_encoded_twice_and_other_broken_forms_are_no_call(reply: str) -> None:
    assert paid(reply, WEATHER) == 0.0
    assert not answers.in_form(reply)


def test_the_request_is_shown_with_the_functions_at_hand() -> None:
    asked = answers.ask({"question": "Weather?", "functions": FUNCTIONS})
    head, _, listed = asked.partition("\n\nFunctions:\n")
    assert head == "Weather?"
    assert [json.loads(line) for line in listed.splitlines()] == FUNCTIONS


# --- how datasets write calls ----------------------------------------------------------------------------------------


def read(monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], prompt: str, answer: str) -> Any:
    monkeypatch.setattr(shape, "PROMPT_COLUMNS", (prompt,))
    monkeypatch.setattr(shape, "ANSWER_COLUMN", answer)
    return shape.canonical(row)


def test_rows_of_xlam_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"query": "Do it.", "tools": json.dumps(FUNCTIONS), "answers": json.dumps([WEATHER, NOTE])}
    found = read(monkeypatch, row, "query", "answers")
    assert found == {"question": "Do it.", "functions": FUNCTIONS, "answer": [WEATHER, NOTE]}


def test_messages_of_the_api_are_read_with_arguments_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    call = {"id": "1", "type": "function", "function": {**WEATHER, "arguments": json.dumps(WEATHER["arguments"])}}
    row = {
        "messages": [
            {"role": "system", "content": "Use the tools."},
            {"role": "user", "content": "Weather in Oslo?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "rain"},
            {"role": "assistant", "content": "It rains."},
        ],
        "tools": [{"type": "function", "function": FUNCTIONS[0]}],
    }
    found = read(monkeypatch, row, "messages", "messages")
    assert found == {"question": "Weather in Oslo?", "functions": FUNCTIONS[:1], "answer": WEATHER}


def test_conversations_of_hermes_are_read_from_their_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [{"from": "human", "value": "Weather in Oslo?"}, {"from": "gpt", "value": tag(WEATHER)}]
    found = read(
        monkeypatch, {"conversations": turns, "tools": json.dumps(FUNCTIONS)}, "conversations", "conversations"
    )
    assert found["answer"] == WEATHER


def test_calls_of_toolace_in_the_syntax_of_python_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [{"name": "Market Trends API", "description": "x"}, {"name": "find", "description": "y"}]
    said = "[Market Trends API(kind=\"A, (B)\", limit=3), find(tags=['x', 'y'], deep={'z': True})]"
    row = {
        "system": f"You can use functions.\n{json.dumps(functions)}\nReturn only calls.",
        "conversations": [{"from": "user", "value": "Trends?"}, {"from": "assistant", "value": said}],
    }
    found = read(monkeypatch, row, "conversations", "conversations")
    assert found["functions"] == functions
    assert found["answer"] == [
        {"name": "Market Trends API", "arguments": {"kind": "A, (B)", "limit": 3}},
        {"name": "find", "arguments": {"tags": ["x", "y"], "deep": {"z": True}}},
    ]


def test_possible_answers_of_the_berkeley_leaderboard_are_all_right(monkeypatch: pytest.MonkeyPatch) -> None:
    possible = [
        {"get_weather": {"city": ["San Francisco", "SF"], "days": [3], "unit": ["C", ""], "at": [{"h": [1, 2]}]}}
    ]
    row = {
        "question": [[{"role": "user", "content": "Weather?"}]],
        "function": [{"name": "get_weather", "parameters": {}}],
        "ground_truth": possible,
    }
    found = read(monkeypatch, row, "question", "ground_truth")
    assert found["question"] == "Weather?"
    gold = answers.gold_of(found)

    def score(**arguments: Any) -> float:
        return answers.score(tag({"name": "get_weather", "arguments": arguments}), gold)

    at = {"h": 1}
    assert score(city="San Francisco", days=3, unit="C", at=at) == 1.0
    assert score(city="san-francisco", days=3, at={"h": 2}) == 1.0
    assert score(city="SF", days=3, at=at) == 1.0
    assert score(city="SF", days=3, at={"h": 3}) == 0.0
    assert score(city="SF", days=3, unit="F", at=at) == 0.0
    assert score(city="SF", at=at) == 0.0
    assert answers.score(f"<tool_call>{gold}</tool_call>", gold) == 1.0


def test_two_golds_that_one_call_could_fulfil_are_matched_together() -> None:
    loose = {"name": "f", "arguments": {"x": 1}, "accept": {"x": [2]}}
    strict = {"name": "f", "arguments": {"x": 1}}
    one, two = ({"name": "f", "arguments": {"x": n}} for n in (1, 2))
    for golds in ([loose, strict], [strict, loose]):
        assert paid(tag(one, two), golds) == 1.0
        assert paid(tag(two, two), golds) == 0.0


@pytest.mark.parametrize(
    "row",
    [
        {"answer": "[]"},
        {"answer": "I cannot do that."},
        {"answer": [{"name": "unknown", "arguments": {}}], "tools": FUNCTIONS},
        {"answer": [{**WEATHER, "arguments": "{broken"}]},
        {"answer": [{**WEATHER, "arguments": {"city": "</tool_call>"}}]},
        {"answer": "[f(1, 2)]"},
        {"answer": None},
    ],
)
def test_rows_that_call_nothing_or_nothing_that_can_be_said_are_left_out(row: dict[str, Any]) -> None:
    assert shape.canonical({"question": "Do it.", **row}) is None


def test_every_gold_of_the_sample_data_earns_the_reward_when_said() -> None:
    rows = modules("tool_call", "rows")["rows"].rows
    for row in (*rows("train"), *rows("eval")):
        gold = answers.gold_of(row)
        assert gold is not None
        assert answers.score(f"<tool_call>{gold}</tool_call>", gold) == 1.0
