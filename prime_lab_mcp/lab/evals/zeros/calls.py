"""What was wrong with a tool call: told by the call itself first, by what the tool answered second.

A result counts as a refusal only where it begins as one, or is exactly what verifiers makes of an exception; the word
`timeout` in the data that a tool returns is data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.evals.conversation import ToolCall
from prime_lab_mcp.lab.evals.zeros.kinds import Classified
from prime_lab_mcp.lab.evals.zeros.turns import Ending, Turn
from prime_lab_mcp.lab.text import quote

Tools = Mapping[str, Mapping[str, Any]]

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
"""Of the three messages that the seed tells truncation by; the third, `Expecting value: line 1 column 1`, is raw code
instead of JSON. Used only where the arguments themselves were not kept."""
_BAD_ARGUMENTS = re.compile(
    r"unexpected keyword argument|missing \d+ required|validation error for|Field required"
    r"|takes \d+ positional argument|argument after \*\* must be a mapping"
)
_FENCE = re.compile(r"```[\w-]*\s*\n?(.*?)(?:```|\Z)", re.S)
_MARKUP = re.compile(
    r"<tool_call>|<function_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call|<tool_use>", re.I
)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip


def fault(turns: Sequence[Turn], tools: Tools, cap: int | None) -> Classified | None:
    """The tool failure that a rollout did not get over: of the last turn with calls, its last faulty one."""
    last: Classified | None = None
    for turn in turns:
        if turn.message.calls:
            found = [f for call, result in turn.answered if (f := of_call(call, result, tools, turn.ending, cap))]
            last = found[-1] if found else None
    return last


def of_call(call: ToolCall, result: str | None, tools: Tools, ending: Ending, cap: int | None) -> Classified | None:
    """What was wrong with one call; None when nothing was, or nothing that can be seen."""
    name = quote(call.name, 60)
    try:
        given = json.loads(call.arguments) if call.arguments.strip() else {}
    except json.JSONDecodeError as error:
        return _broken(call, error, ending, cap)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        return Classified("malformed_tool_json", f"the arguments of {name} cannot be read: {type(error).__name__}")
    if _is_unknown(call, result, tools):
        return Classified("unknown_tool", f"there is no tool {name}; offered: {_names(tools)}")
    if isinstance(given, str):
        inner = _parsed(given)
        if isinstance(inner, Mapping | list):
            return Classified("double_encoded", f"the arguments of {name} are a JSON text that holds JSON")
        return Classified("bad_arguments", f"the arguments of {name} are a text, not an object")
    if not isinstance(given, Mapping):
        return Classified("bad_arguments", f"the arguments of {name} are a {type(given).__name__}, not an object")
    refused = result is not None and is_refusal(result)
    if result is not None and refused and (told := _told(name, result)) is not None:
        return told
    return _against_schema(name, given, tools.get(call.name) or {}, result, refused=refused)


def is_refusal(result: str) -> bool:
    """Whether a tool's result begins as an error, or is the bare text of an exception as v0 passes it on."""
    return bool(
        _REFUSAL.match(result)
        or _NOT_JSON.match(result)
        or (len(result) < 400 and _BAD_ARGUMENTS.search(result.partition("\n")[0]))
        or _ONLY_TIMED_OUT.fullmatch(result)
        or (len(result) < 200 and _TIMED_OUT.match(result.lstrip()))
    )


def timed_out(text: str) -> bool:
    return bool(_TIMED_OUT.search(text))


def written_call(text: str, tools: Tools) -> str | None:
    """The offered tool that a reply calls in its text instead of as a tool call: the server's parser missed it."""
    if _MARKUP.search(text):
        return next((name for name in tools if name in text), None)
    candidates = [*_FENCE.findall(text), text] if "{" in text else []
    for candidate in candidates:
        found = _parsed(candidate.strip())
        for one in found if isinstance(found, list) else [found]:
            if isinstance(one, Mapping) and (name := _named(one)) in tools:
                return name
    return None


def _broken(call: ToolCall, error: json.JSONDecodeError, ending: Ending, cap: int | None) -> Classified:
    name, text = quote(call.name, 60), call.arguments.strip()
    said = f"{error.msg.removesuffix(' starting at')} at {error.pos:,} of {len(text):,} characters"
    if text.startswith("```"):
        [inner, *_] = [*_FENCE.findall(text), ""]
        if _parsed(inner.strip()) is not None:
            return Classified("malformed_tool_json", f"the arguments of {name} are JSON in a fence", "parser")
    if breaks_off(text, error):
        if ending.finish != "length" and ending.far_below(cap):
            why = f"after {ending.tokens:,} tokens, far below the limit of {cap:,}"
            return Classified("malformed_tool_json", f"the model ended the arguments of {name} itself, {why}: {said}")
        how = "the reply reached the token limit" if ending.at_limit(cap) else "they break off at their end"
        return Classified("truncated", f"the arguments of {name} are cut ({how}): {said}", "tokens")
    if ending.finish == "length" and error.pos >= len(text) - 2:
        return Classified("truncated", f"the arguments of {name} are cut: {said}", "tokens")
    cause = "code" if error.pos == 0 and not text.startswith(("{", "[", '"')) else ""
    what = "are no JSON at all, such as raw code" if cause else "are broken JSON in the middle"
    return Classified("malformed_tool_json", f"the arguments of {name} {what}: {said}", "code" if cause else "")


def breaks_off(text: str, error: json.JSONDecodeError) -> bool:
    """JSON that is fine as far as it goes."""
    rest = text[error.pos :]
    if error.msg.startswith("Unterminated string") or not rest:
        return True
    if error.msg.startswith("Invalid \\"):
        return len(rest) <= 6 and '"' not in rest
    return error.msg.startswith("Expecting value") and any(word.startswith(rest) for word in ("true", "false", "null"))


def _is_unknown(call: ToolCall, result: str | None, tools: Tools) -> bool:
    if tools:
        return call.name not in tools
    # v0 answers with the text of a KeyError, which is the name in quotes.
    said = (result or "").strip()
    return bool(said) and (
        said in (repr(call.name), f"error: {call.name!r}")
        or bool(re.match(r"(?:error:\s*)?unknown tool\b", said, re.I))
    )


def _told(name: str, result: str) -> Classified | None:
    """What a refusal itself says."""
    shown = quote(result, 160)
    if found := _NOT_JSON.search(result):
        if found[1].startswith(_CUT_JSON):
            return Classified("truncated", f"{name} answered {shown}: its arguments were cut", "tokens")
        cause = "code" if found[1].startswith("Expecting value") and "column 1 " in f"{found[0]} " else ""
        return Classified("malformed_tool_json", f"{name} answered {shown}", "code" if cause else "")
    if timed_out(result):
        return Classified("tool_timeout", f"{name} answered {shown}")
    if _BACKEND.search(result):
        return Classified("infrastructure", f"what {name} needs did not work: {shown}", "backend")
    return None


def _against_schema(
    name: str, given: Mapping[str, Any], schema: Mapping[str, Any], result: str | None, *, refused: bool
) -> Classified | None:
    properties = schema.get("properties")
    known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    if missing := [key for key in schema.get("required") or () if key not in given]:
        return Classified("bad_arguments", f"{name} needs {quote(missing[0], 60)}, given: {_names(given)}")
    if result is not None and not refused:
        return None
    for key, value in given.items():
        wanted = known.get(key)
        if known and wanted is None:
            return Classified("bad_arguments", f"{name} has no argument {quote(key, 60)}; it has {_names(known)}")
        kind = wanted.get("type") if isinstance(wanted, Mapping) else None
        right = _TYPES.get(kind) if isinstance(kind, str) else None
        if right is None or isinstance(value, right):
            continue
        if isinstance(value, str) and kind in ("object", "array") and isinstance(_parsed(value), right):
            return Classified("double_encoded", f"argument {quote(key, 60)} of {name} is {kind} written as a text")
        if refused:
            return Classified("bad_arguments", f"argument {quote(key, 60)} of {name} must be of type {kind}")
    return Classified("bad_arguments", f"{name} answered {quote(result or '', 160)}") if refused else None


def _named(call: Mapping[str, Any]) -> str:
    for key in ("name", "tool", "tool_name", "function"):
        value = call.get(key)
        if isinstance(value, Mapping):
            value = value.get("name")
        if isinstance(value, str):
            return value
    return ""


def _names(known: Mapping[str, Any]) -> str:
    return ", ".join(quote(n, 40) for n in list(known)[:5]) or "nothing"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
