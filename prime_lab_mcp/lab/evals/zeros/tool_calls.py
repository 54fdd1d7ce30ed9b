"""Finds the fault of a tool call, first in the call itself, then in the tool's result.

A result counts as an error only if it begins like one, or is exactly the text into which verifiers turns an exception.
Data that a tool returns may contain the word `timeout`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.zeros.turns import Classified, ReplyEnding, Turn
from prime_lab_mcp.lab.rollouts.conversation import ToolCall

Tools = Mapping[str, Mapping[str, Any]]
"""JSON schemas of the parameters of the offered tools, by the name of the tool."""

_REFUSAL = re.compile(r"\s*(?:error\b|exception\b|traceback \(most recent|failed\b|\w+(?:Error|Exception)\b)", re.I)
_TIMED_OUT = re.compile(
    r"timed[ -]?out|\b\w*Timeout(?:Error|Expired|Exception)\b|\b(?:Read|Connect)Timeout\b|deadline exceeded"
    r"|timeout (?:after|of|expired|exceeded|reached)|(?:execution|command|request|operation) timeout",
    re.I,
)
_ONLY_TIMED_OUT = re.compile(r"\s*[\w' -]{0,60}\btimed out\b(?: after [\d.]+ ?\w*)?[.!]?\s*")
_BACKEND = re.compile(
    r"connection (?:refused|reset|error)|connect call failed|\b(?:429|502|503|504)\b|rate limit|service unavailable"
    r"|no space left|name resolution|SandboxError|not authenticated|unauthorized",
    re.I,
)
_NOT_JSON = re.compile(
    r"(Unterminated string(?: starting at)?|Invalid \\+(?:escape|uXXXX escape)|Invalid control character|Extra data"
    r"|Expecting (?:value|property name|',' delimiter|':' delimiter)[^:\n]{0,40}): line \d+ column \d+"
)
_CUT_JSON = ("Unterminated string", "Invalid \\")
"""Messages of the JSON decoder that mean truncated arguments, for results that do not store the arguments themselves.
`Expecting value: line 1 column 1` means raw code instead of JSON."""
_BAD_ARGUMENTS = re.compile(
    r"unexpected keyword argument|missing \d+ required|validation error for|Field required"
    r"|takes \d+ positional argument|argument after \*\* must be a mapping"
)
_FENCE = re.compile(r"```[\w-]*\s*\n?(.*?)(?:```|\Z)", re.S)
_MARKUP = re.compile(
    r"<tool_call>|<function_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call|<tool_use>", re.I
)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def tool_fault(turns: Sequence[Turn], tools: Tools, token_limit: int | None) -> Classified | None:
    """Return the last faulty tool call of the last turn with tool calls, or None if that turn has no faulty call.

    A faulty call in an earlier turn does not count, because the model recovered from it.
    """
    last: Classified | None = None
    for turn in turns:
        if turn.message.calls:
            faults = [
                f for call, result in turn.answered if (f := call_fault(call, result, tools, turn.ending, token_limit))
            ]
            last = faults[-1] if faults else None
    return last


def call_fault(
    call: ToolCall, result: str | None, tools: Tools, ending: ReplyEnding, cap: int | None
) -> Classified | None:
    """Return the fault of one tool call, or None if no fault is visible. `cap` is the token limit of one reply."""
    name = quote(call.name, 60)
    try:
        arguments = json.loads(call.arguments) if call.arguments.strip() else {}
    except json.JSONDecodeError as error:
        return _broken(call, error, ending, cap)
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or thousands of brackets
        return Classified("malformed_tool_json", f"the arguments of {name} cannot be read: {type(error).__name__}")
    if _is_unknown(call, result, tools):
        return Classified("unknown_tool", f"there is no tool {name}; offered: {_names(tools)}")
    if isinstance(arguments, str):
        decoded = _parsed(arguments)
        if isinstance(decoded, Mapping | list):
            return Classified("double_encoded", f"the arguments of {name} are a JSON text that holds JSON")
        return Classified("bad_arguments", f"the arguments of {name} are a text, not an object")
    if not isinstance(arguments, Mapping):
        return Classified("bad_arguments", f"the arguments of {name} are a {type(arguments).__name__}, not an object")
    refused = result is not None and is_refusal(result)
    if result is not None and refused and (fault := _refusal_fault(name, result)) is not None:
        return fault
    return _against_schema(name, arguments, tools.get(call.name) or {}, result, refused=refused)


def is_refusal(result: str) -> bool:
    """Whether a tool's result begins like an error, or is only the text of an exception, as v0 returns it."""
    return bool(
        _REFUSAL.match(result)
        or _NOT_JSON.match(result)
        or (len(result) < 400 and _BAD_ARGUMENTS.search(result.partition("\n")[0]))
        or _ONLY_TIMED_OUT.fullmatch(result)
        or (len(result) < 200 and _TIMED_OUT.match(result.lstrip()))
    )


def timed_out(text: str) -> bool:
    """Whether a text reports a timeout."""
    return bool(_TIMED_OUT.search(text))


def written_call(text: str, tools: Tools) -> str | None:
    """Return the offered tool that a reply calls in its text, or None. The server's tool parser missed such a call."""
    if _MARKUP.search(text):
        return next((name for name in tools if name in text), None)
    candidates = [*_FENCE.findall(text), text] if "{" in text else []
    for candidate in candidates:
        decoded = _parsed(candidate.strip())
        for call in decoded if isinstance(decoded, list) else [decoded]:
            if isinstance(call, Mapping) and (name := _call_name(call)) in tools:
                return name
    return None


def _broken(call: ToolCall, error: json.JSONDecodeError, ending: ReplyEnding, cap: int | None) -> Classified:
    name, text = quote(call.name, 60), call.arguments.strip()
    position = f"{error.msg.removesuffix(' starting at')} at {error.pos:,} of {len(text):,} characters"
    if text.startswith("```"):
        [fenced, *_] = [*_FENCE.findall(text), ""]
        if _parsed(fenced.strip()) is not None:
            return Classified("malformed_tool_json", f"the arguments of {name} are JSON in a fence", "parser")
    if breaks_off(text, error):
        if ending.finish != "length" and ending.far_below(cap):
            why = f"after {ending.tokens:,} tokens, far below the limit of {cap:,}"
            return Classified(
                "malformed_tool_json", f"the model ended the arguments of {name} itself, {why}: {position}"
            )
        sign = "the reply reached the token limit" if ending.at_limit(cap) else "they break off at their end"
        return Classified("truncated", f"the arguments of {name} are cut ({sign}): {position}", "tokens")
    if ending.finish == "length" and error.pos >= len(text) - 2:
        return Classified("truncated", f"the arguments of {name} are cut: {position}", "tokens")
    cause = "code" if error.pos == 0 and not text.startswith(("{", "[", '"')) else ""
    description = "are no JSON at all, such as raw code" if cause else "are broken JSON in the middle"
    return Classified(
        "malformed_tool_json", f"the arguments of {name} {description}: {position}", "code" if cause else ""
    )


def breaks_off(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text is a valid beginning of JSON that ends too early."""
    tail = text[error.pos :]
    if error.msg.startswith("Unterminated string") or not tail:
        return True
    if error.msg.startswith("Invalid \\"):
        return len(tail) <= 6 and '"' not in tail
    return error.msg.startswith("Expecting value") and any(word.startswith(tail) for word in ("true", "false", "null"))


def _is_unknown(call: ToolCall, result: str | None, tools: Tools) -> bool:
    if tools:
        return call.name not in tools
    # The result of an unknown tool in v0 is the text of a KeyError, which is the name in quotes.
    answer = (result or "").strip()
    return bool(answer) and (
        answer in (repr(call.name), f"error: {call.name!r}")
        or bool(re.match(r"(?:error:\s*)?unknown tool\b", answer, re.I))
    )


def _refusal_fault(name: str, result: str) -> Classified | None:
    """Return the fault that the text of an error result shows, or None."""
    quoted = quote(result, 160)
    if match := _NOT_JSON.search(result):
        if match[1].startswith(_CUT_JSON):
            return Classified("truncated", f"{name} answered {quoted}: its arguments were cut", "tokens")
        cause = "code" if match[1].startswith("Expecting value") and "column 1 " in f"{match[0]} " else ""
        return Classified("malformed_tool_json", f"{name} answered {quoted}", "code" if cause else "")
    if timed_out(result):
        return Classified("tool_timeout", f"{name} answered {quoted}")
    if _BACKEND.search(result):
        return Classified("infrastructure", f"what {name} needs did not work: {quoted}", "backend")
    return None


def _against_schema(
    name: str, arguments: Mapping[str, Any], schema: Mapping[str, Any], result: str | None, *, refused: bool
) -> Classified | None:
    properties = schema.get("properties")
    parameters: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    if missing := [key for key in schema.get("required") or () if key not in arguments]:
        return Classified("bad_arguments", f"{name} needs {quote(missing[0], 60)}, given: {_names(arguments)}")
    if result is not None and not refused:
        return None
    for key, value in arguments.items():
        parameter = parameters.get(key)
        if parameters and parameter is None:
            return Classified("bad_arguments", f"{name} has no argument {quote(key, 60)}; it has {_names(parameters)}")
        kind = parameter.get("type") if isinstance(parameter, Mapping) else None
        expected_type = _TYPES.get(kind) if isinstance(kind, str) else None
        if expected_type is None or isinstance(value, expected_type):
            continue
        if isinstance(value, str) and kind in ("object", "array") and isinstance(_parsed(value), expected_type):
            return Classified("double_encoded", f"argument {quote(key, 60)} of {name} is {kind} written as a text")
        if refused:
            return Classified("bad_arguments", f"argument {quote(key, 60)} of {name} must be of type {kind}")
    return Classified("bad_arguments", f"{name} answered {quote(result or '', 160)}") if refused else None


def _call_name(call: Mapping[str, Any]) -> str:
    for key in ("name", "tool", "tool_name", "function"):
        value = call.get(key)
        if isinstance(value, Mapping):
            value = value.get("name")
        if isinstance(value, str):
            return value
    return ""


def _names(names: Mapping[str, Any]) -> str:
    return ", ".join(quote(n, 40) for n in list(names)[:5]) or "nothing"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
