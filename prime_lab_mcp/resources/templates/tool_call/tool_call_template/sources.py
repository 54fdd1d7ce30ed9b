"""Calls as datasets write them, all made into one form: `{"name": ..., "arguments": {...}}`, with `accept` and
`optional` where the dataset allows several values.

Read are: lists of calls with their arguments as object or as JSON text (xLAM, Hermes), the API's own form
(`{"type": "function", "function": {...}}`, also inside of a message's `tool_calls`), `<tool_call>` tags in text, the
possible answers of the Berkeley leaderboard (`{"fn": {"argument": [value, value, ""]}}`, where an empty text means that
the argument may be left out) and calls in Python's syntax (`[fn(argument="value")]`, ToolACE).
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tool_call_template.tags import tagged

_MOST_VALUES = 64
"""Ways to fill one argument; a row that allows more is left out, because leaving out some would be unfair."""
_PYTHON_CALL = re.compile(r"\s*,?\s*([^()\[\],=]+?)\s*\(")


def calls_in(found: Any) -> list[dict[str, Any]]:
    """The calls of an answer. Raises ValueError for what is none of the known forms."""
    if isinstance(found, str):
        return _in_text(found.strip())
    if isinstance(found, list | tuple):
        return [call for item in found for call in calls_in(item)]
    if not isinstance(found, Mapping):
        raise ValueError("no calls")
    if isinstance(found.get("tool_calls"), list):
        return calls_in(found["tool_calls"])
    if isinstance(found.get("function"), Mapping):
        return calls_in(found["function"])
    if isinstance(found.get("name"), str):
        arguments: Any = next((found[k] for k in ("arguments", "parameters", "args") if found.get(k) is not None), {})
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        if not isinstance(arguments, Mapping):
            raise ValueError("arguments are no object")
        kept = {key: found[key] for key in ("accept", "optional") if found.get(key)}
        return [{"name": found["name"], "arguments": dict(arguments), **kept}]
    if len(found) == 1:
        name, arguments = next(iter(found.items()))
        if isinstance(arguments, Mapping) and all(isinstance(values, list) for values in arguments.values()):
            return [_possible(str(name), arguments)]
    raise ValueError("no calls")


def _in_text(text: str) -> list[dict[str, Any]]:
    tags = tagged(text)
    if tags:
        return [call for content in tags for call in calls_in(json.loads(content))]
    if text[:2] in ("[{", '{"') or text[:1] == "{":
        return calls_in(json.loads(text))
    return list(_python_calls(text))


def _possible(name: str, arguments: Mapping[str, list[Any]]) -> dict[str, Any]:
    first: dict[str, Any] = {}
    accept: dict[str, list[Any]] = {}
    optional: list[str] = []
    for argument, values in arguments.items():
        ways = [way for value in values if value != "" for way in _expanded(value)]
        if "" in values or not ways:
            optional.append(argument)
        if len(ways) > _MOST_VALUES:
            raise ValueError("too many possible values")
        if ways:
            first[argument] = ways[0]
            accept[argument] = ways[1:]
    return {"name": name, "arguments": first, "accept": accept, "optional": optional}


def _expanded(value: Any) -> list[Any]:
    """Every value that a possible value stands for: inside of objects, each key has a list of values of its own."""
    if isinstance(value, Mapping) and value and all(isinstance(inner, list) for inner in value.values()):
        ways = [
            [(key, way) for v in inner for way in ([None] if v == "" else _expanded(v))] for key, inner in value.items()
        ]
        product = itertools.islice(itertools.product(*ways), _MOST_VALUES + 1)
        return [{key: inner for key, inner in pairs if inner is not None} for pairs in product]
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        product = itertools.islice(itertools.product(*map(_expanded, value)), _MOST_VALUES + 1)
        return [list(items) for items in product]
    return [value]


def _python_calls(text: str) -> Iterator[dict[str, Any]]:
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("no calls")
    inner, at = text[1:-1], 0
    while inner[at:].strip():
        head = _PYTHON_CALL.match(inner, at)
        if head is None:
            raise ValueError("no call")
        end = next((e for e in _closing(inner, head.end()) if _arguments(inner[head.end() : e]) is not None), None)
        if end is None:
            raise ValueError("no arguments")
        yield {"name": head[1], "arguments": _arguments(inner[head.end() : end])}
        at = end + 1


def _closing(text: str, start: int) -> Iterator[int]:
    return (at for at in range(start, len(text)) if text[at] == ")")


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            return None
        return {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions_in(found: Any) -> list[dict[str, Any]]:
    """Descriptions of functions: a list, one object, or a text with the list as JSON; empty where there are none."""
    if isinstance(found, str):
        start = found.find("[{")
        try:
            found = json.JSONDecoder().raw_decode(found, start)[0] if start >= 0 else json.loads(found)
        except ValueError:
            return []
    items = found if isinstance(found, list) else [found]
    inner = [item.get("function", item) for item in items if isinstance(item, Mapping)]
    return [dict(item) for item in inner if isinstance(item, Mapping) and isinstance(item.get("name"), str)]
