"""Classes of zeros from records alone: what decides in each layout, and what must not be mistaken for it."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.evals.zeros.classify import classify_zero
from prime_lab_mcp.lab.evals.zeros.turns import Classified
from prime_lab_mcp.lab.rollouts.components import earned_for_answer
from tests.lab.evals.records import ADD, PARAMETERS, call, document, result, said, v0, v1

WRONG = said("<answer>4</answer>")
REFUSED = "error: invalid JSON in tool arguments (x); resend the call with valid JSON"
LAYOUTS = pytest.mark.parametrize("make", [v1, v0])


def kind(rollout: Any, cap: int | None = 100, **more: Any) -> tuple[str, str] | None:
    found = classify_zero(rollout, cap=cap, **more)
    return None if found is None else (found.kind, found.cause)


@LAYOUTS
def test_what_earned_something_is_no_zero(make: Any) -> None:
    broken = [said("", call('{"first" 1}')), result(REFUSED), said("<answer>3</answer>")]

    assert classify_zero(make(broken, {"correct": 1.0, "answer_format": 1.0}, tools=[ADD])) is None
    assert classify_zero(make([said("<answer>3", finish="length")], {"correct": 0.4})) is None


@LAYOUTS
def test_a_paid_form_alone_is_a_zero_and_a_zero_form_is_unparsed(make: Any) -> None:
    assert kind(make([WRONG])) == ("wrong", "")
    assert kind(make([said("It is 4")], {"correct": 0.0, "answer_format": 0.0})) == ("unparsed", "")
    assert kind(make([said("It is 4")], {"correct": 0.0})) == ("unparsed", "")
    assert kind(make([said("It is 4")], {"correct": 0.0, "information_score": 0.0}, prompt="1+2?")) == ("wrong", "")


def test_a_format_reward_with_a_floor_does_not_hide_a_missing_form() -> None:
    assert kind(v0([said("It is 4")], {"correct": 0.0, "xmlparser_format_reward": 0.2})) == ("unparsed", "")


@pytest.mark.parametrize(("metric", "value"), [("parsed", 0.0), ("parse_errors", 2.0), ("is_formatted", 0.0)])
def test_a_metric_of_the_parser_counts_too(metric: str, value: float) -> None:
    assert kind(v1([WRONG], {"correct": 0.0}, metrics={metric: value})) == ("unparsed", "")


def test_a_penalty_that_takes_all_away_leaves_a_zero_that_says_so() -> None:
    found = classify_zero(v1([WRONG], {"correct": 1.0, "length_penalty": -1.0}))

    assert found is not None
    assert (found.kind, "took it away" in found.evidence) == ("wrong", True)


def test_counters_of_tool_calls_are_no_pay_in_v0() -> None:
    rollout = v0([said("<answer>4</answer>")], {"correct": 0.0, "add_calls": 2.0, "total_tool_calls": 2.0})

    assert not earned_for_answer(rollout)
    assert not earned_for_answer(v0([WRONG], {"correct": 0.0, "reply_chars": 9.0}), {"correct": 1.0})


@LAYOUTS
def test_a_length_stop_is_truncated_whatever_else_is_wrong(make: Any) -> None:
    rollout = make([said("<answer>", finish="length")], {"correct": 0.0, "answer_format": 0.0}, tools=[ADD])

    assert kind(rollout) == ("truncated", "tokens")


@LAYOUTS
@pytest.mark.parametrize(("tokens", "expected"), [(98, ("truncated", "tokens")), (97, ("wrong", ""))])
def test_a_reply_that_used_its_whole_limit_was_cut_whatever_the_server_says(
    make: Any, tokens: int, expected: tuple[str, str]
) -> None:
    assert kind(make([said("<answer>4</answer>", tokens=tokens)])) == expected


def test_the_sum_of_several_replies_is_not_held_against_the_limit_of_one() -> None:
    turns = [said("", call('{"first": 1}'), tokens=70), result("1"), said("<answer>4</answer>", tokens=70)]

    assert kind(v0(turns, tools=[ADD])) == kind(v1(turns, tools=[ADD])) == ("wrong", "")


def test_reasoning_that_used_up_the_limit_is_said() -> None:
    found = classify_zero(v1([said("", finish="length", reasoning="hmm " * 40)], {"correct": 0.0}, tools=[ADD]))

    assert found is not None
    assert (found.kind, "thinking" in found.evidence) == ("truncated", True)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("<answer>4", True),
        ("<think>so", True),
        ("```python\nx = 1", True),
        ("so \\boxed{4", True),
        ('{"a": [1, 2', True),
        ("It goes on and", False),
        ("<answer>4</answer>", False),
    ],
)
def test_the_look_of_a_text_counts_only_where_nothing_says_how_it_ended(text: str, cut: bool) -> None:
    assert (kind(document(text)) == ("truncated", "shape")) is cut
    assert kind(document(text, is_truncated=False)) != ("truncated", "shape")


def test_among_the_longest_an_open_end_counts_as_cut() -> None:
    text = "It goes on and " * 20

    assert kind(document(text), long=200) == ("truncated", "shape")
    assert kind(document(text), long=2000) == ("unparsed", "")
    assert kind(document(f"{text}<answer>4</answer>."), long=200) == ("wrong", "")


@LAYOUTS
@pytest.mark.parametrize(
    ("arguments", "finish", "tokens", "expected"),
    [
        ('{"first": 1, "note": "abc', "length", 64, ("truncated", "tokens")),
        ('{"first": 1, "note": "abc', "tool_calls", 99, ("truncated", "tokens")),
        ('{"first": 1, "note": "abc', "tool_calls", 20, ("malformed_tool_json", "")),
        ('{"first": tr', "tool_calls", 99, ("truncated", "tokens")),
        ('{"first" = 1}', "tool_calls", 20, ("malformed_tool_json", "")),
        ('{"note": "a "quoted" word"}', "tool_calls", 20, ("malformed_tool_json", "")),
        ('{"pattern": "\\d+"}', "tool_calls", 20, ("malformed_tool_json", "")),
        ("import re\nprint(1)", "tool_calls", 20, ("malformed_tool_json", "code")),
        ('```json\n{"first": 1}\n```', "tool_calls", 20, ("malformed_tool_json", "parser")),
        ('"{\\"first\\": 1}"', "tool_calls", 20, ("double_encoded", "")),
        ("[1]", "tool_calls", 20, ("bad_arguments", "")),
        ('"one"', "tool_calls", 20, ("bad_arguments", "")),
        ('{"frist": 1}', "tool_calls", 20, ("bad_arguments", "")),
        ('{"first": 1, "more": "{\\"a\\": 1}"}', "tool_calls", 20, ("double_encoded", "")),
    ],
)
def test_the_arguments_of_a_call_tell_what_is_wrong_with_it(
    make: Any, arguments: str, finish: str, tokens: int, expected: tuple[str, str]
) -> None:
    turns = [said("", call(arguments), finish=finish, tokens=tokens), result("error: no"), said("", tokens=0)]

    assert kind(make(turns, tools=[ADD])) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unterminated string starting at: line 1 column 10 (char 9)", ("truncated", "tokens")),
        ("error: Invalid \\escape: line 1 column 5 (char 4)", ("truncated", "tokens")),
        ("Expecting value: line 1 column 1 (char 0)", ("malformed_tool_json", "code")),
        ("Error: Expecting ',' delimiter: line 1 column 9 (char 8)", ("malformed_tool_json", "")),
        ("Error executing tool add: the disk timed out after 5 s", ("tool_timeout", "")),
        ("Error: Command timed out after 30s", ("tool_timeout", "")),
        ("Command timed out after 0.2s", ("tool_timeout", "")),
        ("Of five runs, two timed out after 30 s", ("wrong", "")),
        ("Error executing tool add: [Errno 111] Connection refused", ("infrastructure", "backend")),
        ("error: division by zero", ("bad_arguments", "")),
        ("add() got an unexpected keyword argument 'x'", ("bad_arguments", "")),
        ("the time-out of a match is 60 seconds", ("wrong", "")),
        ("timeout: 30\nretries: 2\nhost: example", ("wrong", "")),
        ('{"setting": "timeout", "error": "none"}', ("wrong", "")),
        ("42", ("wrong", "")),
    ],
)
@LAYOUTS
def test_what_a_tool_answers_counts_where_it_is_a_refusal(make: Any, text: str, expected: tuple[str, str]) -> None:
    turns = [said("", call('{"first": 1}')), result(text), WRONG]

    assert kind(make(turns, tools=[ADD])) == expected


@LAYOUTS
def test_a_tool_that_does_not_exist(make: Any) -> None:
    turns = [said("", call("{}", "subtract")), result("error: unknown tool 'subtract'"), WRONG]

    assert kind(make(turns, tools=[ADD])) == kind(make(turns)) == ("unknown_tool", "")
    assert kind(v0([turns[0], result("'subtract'"), WRONG])) == ("unknown_tool", "")


@LAYOUTS
def test_a_failed_call_that_the_model_got_over_is_not_the_reason(make: Any) -> None:
    again = [said("", call('{"first": 1}')), result("1"), WRONG]

    assert kind(make([said("", call('{"first" 1}')), result(REFUSED), *again], tools=[ADD])) == ("wrong", "")


@LAYOUTS
def test_tools_that_were_offered_and_not_called(make: Any) -> None:
    assert kind(make([WRONG], tools=[ADD])) == ("no_tool_call", "")
    assert kind(make([WRONG])) == ("wrong", "")
    assert kind(make([said("```python\nadd(1, 2)\n```")], tools=[ADD])) == ("no_tool_call", "")


@LAYOUTS
@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"name": "add", "arguments": {"first": 1}}\n```',
        '{"tool": "add", "arguments": {"first": 1}}',
        '<tool_call>\n{"name": "add", "arguments": {"first": 1}}\n</tool_call>',
        "<function=add>\n<parameter=first>1</parameter>\n</function>",
    ],
)
def test_a_call_in_the_text_is_a_fault_of_the_servers_parser(make: Any, text: str) -> None:
    found = classify_zero(make([said(text)], tools=[ADD]))

    assert found is not None
    assert (found.kind, found.cause, found.at_fault) == ("malformed_tool_json", "parser", "setup")
    assert "tool_call_parser" in found.evidence
    assert kind(make([said(text)])) != ("malformed_tool_json", "parser")


def test_other_json_in_a_fence_is_an_answer() -> None:
    assert kind(v1([said('```json\n{"name": "Ada"}\n```')], tools=[ADD])) == ("no_tool_call", "")


@LAYOUTS
def test_silence(make: Any) -> None:
    assert kind(make([said("  ")], {"correct": 0.0})) == ("empty_response", "")
    assert kind(make([said("", reasoning="I know")], {"correct": 0.0}, tools=[ADD])) == ("empty_response", "")
    assert kind(make([], {"correct": 0.0})) == ("empty_response", "")


def test_turns_and_time_that_ran_out() -> None:
    turns = [said("", call('{"first": 1}')), result("1"), said("", call('{"first": 1}'))]

    assert kind(v1(turns, tools=[ADD], stop_condition="max_turns")) == ("truncated", "turns")
    assert kind(v0(turns, tools=[ADD], stop_condition="max_turns_reached")) == ("truncated", "turns")
    assert kind(v0([WRONG], stop_condition="max_turns_reached")) == ("wrong", "")
    assert kind(v1(turns, tools=[ADD], stop_condition="agent_timeout")) == ("tool_timeout", "")
    assert kind(v1([WRONG], stop_condition="agent_timeout")) == ("infrastructure", "time")
    assert kind(v1([WRONG], stop_condition="context_length")) == ("truncated", "context")


def failed(type: str, message: str, traceback: str = "") -> dict[str, Any]:
    errors = [{"type": type, "message": message, "traceback": traceback}]
    return {"errors": errors, "ok": False, "rewards": {}}


@pytest.mark.parametrize(
    ("type", "message", "traceback", "expected"),
    [
        ("ProviderError", "down", "", ("infrastructure", "provider")),
        ("ProviderError", "This model's maximum context length is 4096", "", ("truncated", "context")),
        ("HarnessError", "harness 'null' exited 1: boom", "", ("infrastructure", "harness")),
        ("HarnessError", "exited 1: in call_mcp\nhttpx2.ReadTimeout", "", ("tool_timeout", "")),
        ("SandboxError", "runtime died", "", ("infrastructure", "harness")),
        ("TaskError", "task T scoring: KeyError: 'x'", "", ("infrastructure", "environment")),
        ("TaskError", "scoring: ValueError: judge returned no yes/no verdict: 'hm'", "", ("judge_unparsed", "")),
        ("TaskError", "task T scoring: APIConnectionError: Connection error.", "", ("infrastructure", "environment")),
    ],
)
def test_errors_are_told_apart(type: str, message: str, traceback: str, expected: tuple[str, str]) -> None:
    assert kind(v1([WRONG], **failed(type, message, traceback))) == expected


def test_an_endpoint_that_refuses_a_broken_call_is_not_the_cause() -> None:
    turns = [said("", call('{"first" 1}')), result(REFUSED)]

    assert kind(v1(turns, tools=[ADD], **failed("ProviderError", "400"))) == ("malformed_tool_json", "")


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ("ModelError -> APIConnectionError", ("infrastructure", "provider")),
        ("EmptyModelResponseError", ("empty_response", "")),
        ("ToolParseError -> JSONDecodeError", ("malformed_tool_json", "")),
        ("ToolCallError -> TimeoutError", ("tool_timeout", "")),
        ("ToolCallError -> KeyError", ("unknown_tool", "")),
        ("SandboxError -> APIError", ("infrastructure", "harness")),
    ],
)
def test_error_chains_of_v0(chain: str, expected: tuple[str, str]) -> None:
    error = {"error": chain.partition(" ")[0], "error_chain_str": chain}

    assert kind(v0([], {}, error=error, completion=[])) == expected


def judged(text: str, parsed: Any = None) -> dict[str, Any]:
    response = {"message": {"role": "assistant", "content": text}, "parsed": parsed, "usage": None}
    return {"info": {"judge_calls": [{"name": "judge", "request": {}, "response": response}]}}


@pytest.mark.parametrize(
    ("text", "parsed", "expected"),
    [
        ("Hard to say.", None, "judge_unparsed"),
        ("", None, "judge_unparsed"),
        ("Hard to say.", False, "wrong"),
        ("no", None, "wrong"),
        ("The answer is incorrect.", None, "wrong"),
        ("GRADE: 0", None, "wrong"),
        ('{"verdicts": []}', None, "wrong"),
        ("It says so, so: B", None, "wrong"),
    ],
)
def test_a_judge_without_a_verdict(text: str, parsed: Any, expected: str) -> None:
    assert kind(v1([WRONG], **judged(text, parsed))) == (expected, "")
    if parsed is None:
        assert kind(v0([WRONG], judge_response={"Compare.": text})) == (expected, "")


def test_a_reward_that_is_no_number_is_no_wrong_answer() -> None:
    assert kind(v0([WRONG], reward=float("nan"))) == ("infrastructure", "nonfinite")


def test_training_may_mend_only_what_the_model_did() -> None:
    assert Classified("wrong", "").at_fault == Classified("bad_arguments", "").at_fault == "model"
    assert Classified("truncated", "").at_fault == Classified("judge_unparsed", "").at_fault == "setup"


def test_hostile_records_are_classified_and_quoted() -> None:
    nested = "[" * 4000
    turns = [said("", call(nested, "\x1b[2J" * 50)), result("error: " + "x" * 9000), said("\x00" * 50)]
    for rollout in (v1(turns, tools=[ADD]), v0(turns, tools=[{"name": "add", "parameters": PARAMETERS}])):
        found = classify_zero(rollout, cap=64)
        assert found is not None
        assert "\x1b" not in found.evidence
        assert len(found.evidence) < 600
