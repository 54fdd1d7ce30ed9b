"""Parses tool arguments strictly, and describes them in a compact JSON schema."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from prime_lab_mcp.lab.base.report import Finding, Next, Report
from prime_lab_mcp.lab.base.syntax import MOST_NESTED, nests_too_deeply
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.tools.tool import AnyTool, Arguments

_ANSWERS = frozenset({"confirm", "yes"})
"""Arguments that contain the answer to a question."""


def parse(tool: AnyTool, given: Mapping[str, Any]) -> Arguments | Report:
    """Return the typed arguments, or a report that names every invalid argument.

    An optional argument that is null, an empty text or an empty list counts as omitted. Some clients cannot omit an
    argument: models in OpenAI's strict mode must fill every argument, and some forms send every field.
    """
    kind: type[Arguments] = tool.args
    given = _without_empty(kind, given)
    named = next((name for name, value in given.items() if nests_too_deeply(value)), None)
    if named is not None:
        message = f"{quote(named, 80)} nests deeper than {MOST_NESTED} levels, which no check could follow"
        fix = f"Give {quote(named, 80)} with fewer levels."
        followed = {name: value for name, value in given.items() if not nests_too_deeply(value)}
        return _refused(tool, followed, [Finding("bad-argument", "blocker", message, fix, named)])
    named = next((name for name, value in given.items() if _holds_nul(value)), None)
    if named is not None:
        message = f"{quote(named, 80)} holds a NUL character, which no name, path or text of these tools has"
        return _refused(
            tool, given, [Finding("bad-argument", "blocker", message, f"Give {quote(named, 80)} without it.", named)]
        )
    try:
        return kind.model_validate(dict(given))
    except ValidationError as first:
        corrected = _without_empty(kind, _json_decoded(tool, given))
        if corrected != given:
            try:
                return kind.model_validate(corrected)
            except ValidationError as second:
                return _refusal(tool, corrected, second)
        return _refusal(tool, given, first)


def can_be_called(tool: AnyTool, given: Mapping[str, Any]) -> bool:
    """Whether a tool takes these arguments, so that a report may recommend the call."""
    return not tool.args.lacks_alternatives(given) and not isinstance(parse(tool, given), Report)


def _without_empty(kind: type[Arguments], given: Mapping[str, Any]) -> dict[str, Any]:
    """Drop optional arguments that are null or empty."""

    def is_empty(name: str, value: Any) -> bool:
        field = kind.model_fields.get(name)
        if field is None or field.is_required():
            return False
        return value is None or (value in ("", []) and name not in kind.MEANINGFUL_WHEN_EMPTY)

    return {name: value for name, value in given.items() if not is_empty(name, value)}


def _json_decoded(tool: AnyTool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parse arguments that the client sent as JSON text: lists, objects and numbers."""
    corrected: dict[str, Any] = {}
    for name, value in given.items():
        corrected[name] = value
        if isinstance(value, str) and name in tool.args.model_fields:
            try:
                decoded = json.loads(value)
            except (ValueError, RecursionError):
                continue
            if not isinstance(decoded, str) and not nests_too_deeply(decoded):
                corrected[name] = decoded
    return corrected


def _refusal(tool: AnyTool, given: Mapping[str, Any], error: ValidationError) -> Report:
    known = ", ".join(tool.args.model_fields) or "none"
    findings = []
    for problem in error.errors(include_url=False, include_context=False)[:10]:
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            message, fix = f"{tool.name} has no argument {quote(where, 80)}", f"Its arguments are: {known}."
        elif problem["type"] == "missing":
            message, fix = f"the argument {where} is missing", f"Give {where}."
        else:
            message = f"{where}: {problem['msg']} (given: {quote(problem.get('input'), 80)})"
            fix = f"Give {where} as the tool's schema describes it."
        findings.append(Finding("bad-argument", "blocker", message, fix, where))
    return _refused(tool, given, findings, _corrected_call(tool, given, error))


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_holds_nul(part) for pair in value.items() for part in pair)
    return isinstance(value, list) and any(map(_holds_nul, value))


def _corrected_call(tool: AnyTool, given: Mapping[str, Any], error: ValidationError) -> Next | None:
    """The call with misspelled names and values corrected; None if the corrected call is still invalid.

    The answer to a question is not copied, so the corrected call asks again.
    """
    fields = tool.args.model_fields
    corrected = {name: value for name, value in given.items() if name not in _ANSWERS}
    for problem in error.errors(include_url=False, include_context=True):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if problem["type"] == "extra_forbidden":
            near = [one for one in difflib.get_close_matches(name, list(fields), 1) if one not in corrected]
            if name in corrected and near:
                corrected[near[0]] = corrected.pop(name)
        elif problem["type"] == "literal_error" and len(problem["loc"]) == 1 and isinstance(corrected.get(name), str):
            options = re.findall(r"'([^']*)'", str(problem.get("ctx", {}).get("expected", "")))
            near = difflib.get_close_matches(corrected[name].lower(), options, 1)
            corrected[name] = near[0] if near else corrected[name]
    try:
        tool.args.model_validate(corrected)
    except ValidationError:
        return None
    return Next(tool.name, "the same call, spelled as the tool's arguments are", corrected)


def _without(tool: AnyTool, given: Mapping[str, Any], findings: list[Finding]) -> Next:
    """The call without the refused arguments, if the tool accepts it and neither publishes nor spends."""
    wrong = {(finding.where or "").partition(".")[0] for finding in findings}
    rest = {name: value for name, value in given.items() if name not in wrong}
    try:
        tool.args.model_validate(rest)
    except ValidationError:
        rest = dict(given)
    if rest == given or tool.args.lacks_alternatives(rest) or tool.effect in ("publishes", "spends"):
        return Next("workflow_status", "what there is to name in the arguments")
    return Next(tool.name, "without the arguments that are refused", rest or None)


def _refused(tool: AnyTool, given: Mapping[str, Any], findings: list[Finding], corrected: Next | None = None) -> Report:
    return Report(
        "error",
        f"{tool.name} was called with arguments it does not take; nothing was done.",
        findings=tuple(findings),
        next=(corrected or _without(tool, given, findings),),
    )


def schema(args: type[Arguments]) -> dict[str, Any]:
    """The input schema without titles, nulls and defaults of None, in keywords that every model vendor converts.

    `additionalProperties` and `const` are left out, because google-genai (2.34 to 3.4) cannot convert a tool whose
    schema has them. `parse` still refuses unknown arguments.
    """
    slim: dict[str, Any] = _slim(args.model_json_schema())
    slim.setdefault("properties", {})
    return slim


_LEFT_OUT = ("additionalProperties",)
_DEFAULTS = (("minLength", 0),)
"""Values that a JSON schema implies without stating them."""


def _slim(node: Any) -> Any:
    if isinstance(node, list):
        return [_slim(item) for item in node]
    if not isinstance(node, dict):
        return node
    slim: dict[str, Any] = {}
    for key, value in node.items():
        if (key == "title" and isinstance(value, str)) or key in _LEFT_OUT or (key, value) in _DEFAULTS:
            continue
        if key == "default" and value is None:
            continue
        if key == "properties" and isinstance(value, dict):
            slim[key] = {name: _slim(field) for name, field in value.items()}
        elif key == "const":
            slim["enum"] = [value]
        elif key == "anyOf" and isinstance(value, list):
            kinds = [_slim(kind) for kind in value if kind != {"type": "null"}]
            slim.update(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
        else:
            slim[key] = _slim(value)
    return slim


OUTPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string"},
        "summary": {"type": "string"},
        "findings": {"type": "array"},
        "data": {"type": "object"},
        "unmet": {"type": "array"},
        "next": {"type": "array"},
        "links": {"type": "array"},
    },
    "required": ["status", "summary"],
}
"""The output schema of every tool. lab://reference/reports describes the fields."""
