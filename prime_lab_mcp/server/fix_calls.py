"""Parses the calls that the fix of a finding names, so that a report recommends the same calls as its text.

A fix is a sentence for an agent. It names calls in one notation: `TOOL(name=value, ...)`, `TOOL without NAME`, or
`TOOL` alone, which takes its required arguments from the present call. A fix without a tool changes the present call:
`NAME=value` sets an argument, and "leave NAME out" removes it. Placeholders (`...`, `NAME`, "owner/name") are filled
from the present call if it has the value. A call that still lacks a value is not recommended.

Untrusted text in a fix is quoted (lab/base/text.py). A quoted text is only used as the value of an argument, and a fix
that contains an escaped quote is ignored, so the name of a column or file cannot recommend calls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.state.workspace import HUB_NAME
from prime_lab_mcp.tools.tool import Arguments

_CALL = re.compile(r"\b[a-z]+_[a-z_]+\([^()]*\)")
_MOST_CALLS = 2
"""Maximum number of calls that are recommended from one fix. The text of the fix names the others."""
_CLAUSE = re.compile(r";\s|\.\s|,?\s+or\s+(?=\S+=|leave\b|a\b|another\b|name\b|pass\b|call\b|with\b)|: ")
_EXAMPLE = re.compile(r"\b(?:e\.g\.|such as|for example)", re.IGNORECASE)
_QUOTED = re.compile(r'"([^"]*)"')
_PAIR = re.compile(r'\b([a-z_]+)=("\d+"|\[[^\]]*\]|\{[^}]*\}|-?\d+(?:\.\d+)?|true\b|false\b)')
_OMITTED = re.compile(r"\b[Ll]eave ((?:\w+(?:, | and )?)+) out\b")
_WITHOUT = re.compile(r"\s+without (?:an? |the )?(\w+)")
_WITH_ITS_ID = re.compile(r"(?: it)? (?:with|of|on) (?:its|an?) id\b")
_PLACEHOLDER = re.compile(r"\.\.\.|<.*>|owner/name(?:@version)?|[A-Z][A-Z_/]*")
_VALUES_FROM: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("watch_run", "id"): ("id", "eval", "rescore", "resume_from"),
    ("control_run", "id"): ("id", "resume_from"),
    ("read_eval", "eval"): ("eval", "id", "rescore"),
    ("write_training_config", "based_on"): ("config", "path", "based_on"),
    ("check_training_config", "path"): ("config", "path", "based_on"),
    ("search_hub", "query"): ("environment", "hub", "id"),
    ("read_environment", "environment"): ("environment", "port", "name"),
    ("check_environment", "environment"): ("environment", "port", "name"),
}
"""For an argument of a tool, the arguments of the present call that can provide its value."""


def calls_of_fix(fix: str, tool: str, carried: Mapping[str, Any], tools: Mapping[str, type[Arguments]]) -> list[Next]:
    """The calls that a fix names, at most two, without those that equal the present call.

    `tool` and `carried` are the present call; `tools` are the arguments of every tool.
    """
    if "\\" in fix:
        return []
    words, texts = _own_words(fix)
    calls: list[Next] = []
    for one in (
        *_named(words, texts, tool, carried, tools),
        *_changed(words, texts, tool, carried, tools[tool].model_fields if tool in tools else ()),
    ):
        if one not in calls and (one.tool, dict(one.arguments or {})) != (tool, dict(carried)):
            calls.append(one)
    return calls[:_MOST_CALLS]


def _own_words(fix: str) -> tuple[str, tuple[str, ...]]:
    """Replace every quoted text of a fix by a number. Returns the fix, and the texts in the order of their numbers."""
    texts: list[str] = []

    def replace_by_number(match: re.Match[str]) -> str:
        texts.append(match[1])
        return f'"{len(texts) - 1}"'

    words = _QUOTED.sub(replace_by_number, fix)
    return words.replace("=this file", "=...").replace("e.g. ", "such as "), tuple(texts)


def _named(
    fix: str, texts: Sequence[str], tool: str, carried: Mapping[str, Any], tools: Mapping[str, type[Arguments]]
) -> Iterator[Next]:
    """Yield the calls of tools that a fix names."""
    names = "|".join(map(re.escape, tools))
    for match in re.finditer(rf"(?<![\w/])({names})(?!\w)", fix):
        name, rest = match[1], fix[match.end() :]
        fields = tools[name].model_fields
        stated, without = _arguments(rest, texts), _WITHOUT.match(rest)
        given: dict[str, Any] = {}
        if stated is not None:
            given = {key: _filled(name, key, value, carried) for key, value in stated.items()}
        elif without is not None and without[1] in fields:
            given = {key: value for key, value in carried.items() if name == tool and key != without[1]}
        elif _WITH_ITS_ID.match(rest):
            given = {"id": _filled(name, "id", ..., carried)}
        elif name == "search_hub":
            given = {"kind": "environment", "query": _filled(name, "query", ..., carried)}
        else:
            given = {key: carried[key] for key in tools[name].ONE_OF if key in carried}
        given |= _implied(name, given, carried)
        if ... in given.values() or not given.keys() <= fields.keys():
            continue
        yield Next(name, "what the finding's fix names", given or None)


def _implied(tool: str, given: Mapping[str, Any], carried: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that follow from others: an environment's folder has the name of the environment on the Hub."""
    if tool in ("read_environment", "check_environment") and "environment" not in given:
        environment = _filled(tool, "environment", ..., carried)
        return {} if environment is ... else {"environment": environment}
    if tool == "create_environment" and isinstance(given.get("hub"), str) and "name" not in given:
        return {"name": given["hub"].partition("@")[0].rpartition("/")[2]}
    return {}


def _changed(
    fix: str, texts: Sequence[str], tool: str, carried: Mapping[str, Any], fields: Collection[str]
) -> Iterator[Next]:
    """Yield the present call with the changes that a fix names, one call for each alternative."""
    for clause in _CLAUSE.split(_CALL.sub("", fix)):
        if _EXAMPLE.search(clause):
            continue
        left_out = {name for match in _OMITTED.finditer(clause) for name in re.split(r", | and ", match[1])}
        stated = {
            key: _filled(tool, key, _value(text, texts), {}) for key, text in _PAIR.findall(clause) if key in fields
        }
        if not stated and not left_out & set(carried):
            continue
        if ... in stated.values():
            continue
        rest = {name: value for name, value in carried.items() if name not in left_out}
        yield Next(tool, "the same call, changed as the fix says", {**rest, **stated})


def _arguments(text: str, texts: Sequence[str]) -> dict[str, Any] | None:
    """The arguments in parentheses at the start of a text; None if there are none or they cannot be parsed."""
    if not text.startswith("("):
        return None
    depth = 0
    end = 0
    for end, character in enumerate(text, 1):  # noqa: B007
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            break
    try:
        call = ast.parse(f"f{text[:end]}", mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
        return None
    return {str(keyword.arg): _value(ast.unparse(keyword.value), texts) for keyword in call.keywords}


def _value(text: str, texts: Sequence[str]) -> Any:
    """The value of a literal; `...` for a placeholder."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return _with_texts(ast.literal_eval(text), texts)
    except (ValueError, SyntaxError):
        return ...


def _with_texts(value: Any, texts: Sequence[str]) -> Any:
    """Replace the numbers in a value by the quoted texts."""
    if isinstance(value, str):
        return texts[int(value)]
    if isinstance(value, list):
        return [_with_texts(one, texts) for one in value]
    if isinstance(value, dict):
        return {_with_texts(key, texts): _with_texts(one, texts) for key, one in value.items()}
    return value


def _filled(tool: str, key: str, value: Any, carried: Mapping[str, Any]) -> Any:
    """The value of an argument. A placeholder is replaced by the present call's value; without one, the result is
    `...`."""
    if not _is_placeholder(value):
        return value
    hub = next((v for n in ("hub", "environment") if isinstance(v := carried.get(n), str) and HUB_NAME.match(v)), None)
    if tool == "create_environment" and key in ("name", "hub"):
        return ... if hub is None else (hub if key == "hub" else hub.partition("@")[0].rpartition("/")[2])
    for name in (*_VALUES_FROM.get((tool, key), ()), key):
        if carried.get(name) is not None:
            return carried[name]
    return ...


def _is_placeholder(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_placeholder, value))
    return value is ... or (isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None)
