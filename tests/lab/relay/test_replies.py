"""What a model replied, plain and streamed, and the forms in which honest programs store a reply."""

from __future__ import annotations

import json

import pytest

from prime_lab_mcp.lab.relay.replies import (
    ModelReply,
    StreamedReplies,
    calls_fingerprint,
    message_fingerprint,
    replies_in,
    reply_fingerprints,
    request_fingerprints,
    text_fingerprint,
)


def message(**fields: object) -> dict[str, object]:
    return {"choices": [{"message": {"role": "assistant", **fields}}]}


CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"b": 1, "a": 2}'}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (message(content="four"), ModelReply("four")),
        (message(content=[{"type": "text", "text": "fo"}, {"type": "text", "text": "ur"}]), ModelReply("four")),
        (message(content=None, reasoning_content="hm"), ModelReply("", "hm")),
        (message(content=None, tool_calls=[CALL]), ModelReply("", "", (("add", '{"b": 1, "a": 2}'),))),
        ({"choices": [{"text": "four"}]}, ModelReply("four")),
        (
            {"output": [{"type": "message", "content": [{"type": "output_text", "text": "four"}]}]},
            ModelReply("four"),
        ),
    ],
)
def test_replies_are_read_in_every_form_of_an_answer(answer: dict[str, object], expected: ModelReply) -> None:
    assert replies_in(answer) == [expected]


@pytest.mark.parametrize("answer", [{}, {"choices": None}, {"choices": ["x"]}, {"choices": [{}]}, {"output": [1]}])
def test_answers_in_no_known_form_hold_no_text(answer: dict[str, object]) -> None:
    assert [r.text for r in replies_in(answer) if r.text] == []


def test_a_streamed_reply_is_the_plain_one() -> None:
    streamed = StreamedReplies()
    parts = [{"content": "fo"}, {"reasoning": "hm"}, {"content": "ur"}]
    calls = [[{"index": 0, **CALL, "function": {"name": "add", "arguments": ""}}]]
    calls += [[{"index": 0, "function": {"arguments": part}}] for part in ('{"b": 1, ', '"a": 2}')]
    for delta in [*parts, *({"tool_calls": c} for c in calls)]:
        streamed.add({"choices": [{"index": 0, "delta": delta}]})
    streamed.add({"choices": [], "usage": {}})
    streamed.add({"choices": ["none", {"index": 0, "delta": {"tool_calls": ["none"]}}]})
    assert streamed.replies() == [ModelReply("four", "hm", (("add", '{"b": 1, "a": 2}'),))]


@pytest.mark.parametrize(
    ("reply", "stored"),
    [
        ("<think>2+2</think>\n\nfour", "four"),
        ("2+2</think>four", "four"),
        ("<think>2+2</think>four", "<think>2+2</think>four"),
        (" four \n", "four"),
        ("<answer>four", "<answer>four</answer>"),
        ("ur", "four"),
        ("<think>2+2 and", "<think>2+2 and"),
    ],
)
def test_a_reply_is_known_in_every_honest_form(reply: str, stored: str) -> None:
    request = {"stop": ["</answer>"], "messages": [{"role": "assistant", "content": "fo"}]}
    assert text_fingerprint(stored) in reply_fingerprints(ModelReply(reply), request)


def test_another_text_and_another_call_are_unknown() -> None:
    forms = reply_fingerprints(ModelReply("four", "", (("add", '{"a": 1}'),)), {})
    assert text_fingerprint("four or five") not in forms
    assert calls_fingerprint([("add", json.dumps({"a": 2}))]) not in forms
    assert calls_fingerprint([("add", '{ "a":1 }')]) in forms


def test_a_separate_thought_may_stand_before_its_reply() -> None:
    forms = reply_fingerprints(ModelReply("four", "2+2"), {})
    assert text_fingerprint("2+2 four") in forms
    assert text_fingerprint("<think>2+2</think>\nfour") in forms


def test_a_streamed_response_is_read_whole_at_its_end() -> None:
    streamed = StreamedReplies()
    response = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "four"}]}]}
    streamed.add({"type": "response.output_text.delta", "delta": "fo"})
    streamed.add({"type": "response.completed", "response": response})
    assert streamed.replies() == [ModelReply("four")]


def test_arguments_that_are_no_json_are_known_without_regard_to_whitespace() -> None:
    assert calls_fingerprint([("add", "1,  2\n")]) == calls_fingerprint([("add", "1, 2")])


def test_stops_are_texts() -> None:
    reply = ModelReply("<a>four")
    assert text_fingerprint("<a>four</a>") in reply_fingerprints(reply, {"stop": [7, "</a>"]})
    assert text_fingerprint("<a>four</a>") in reply_fingerprints(reply, {"stop": "</a>"})


def test_a_request_is_known_by_its_texts_unless_it_holds_something_else() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "1+2"}]}, {"role": "assistant", "content": None}]
    assert request_fingerprints({"messages": parts, "instructions": "add"}) == (
        message_fingerprint("add"),
        message_fingerprint("1+2"),
    )
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]
    assert request_fingerprints({"messages": picture}) is None
    assert request_fingerprints({"input": [{"content": {"odd": 1}}]}) is None


def test_of_a_very_long_request_the_first_and_last_messages_are_known() -> None:
    found = request_fingerprints({"messages": [{"content": str(number)} for number in range(100)]})
    assert found is not None
    assert (len(found), found[7], found[8]) == (64, message_fingerprint("7"), message_fingerprint("44"))
