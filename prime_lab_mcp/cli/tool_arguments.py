"""Arguments of tools on a command line: parsed, explained and completed by the schema that clients see.

The schemas are read from the files of `server/surface`, so that no help or completion waits for the import of tools.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.server.tool_descriptions import SURFACE
from prime_lab_mcp.tools import WORKFLOW

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class ToolHelp:
    """What clients see of one tool. `arguments` maps each argument to its JSON schema."""

    name: str
    description: str
    arguments: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]

    @property
    def first_sentence(self) -> str:
        return self.description.split(". ")[0].rstrip(".") + "."


def tool_help(name: str) -> ToolHelp | None:
    """Read what clients see of a tool. None for a name that no tool has."""
    if name not in WORKFLOW:
        return None
    listed = json.loads((SURFACE / f"{name}.json").read_text(encoding="utf-8"))
    schema = listed["inputSchema"]
    return ToolHelp(name, listed["description"], schema["properties"], frozenset(schema.get("required", ())))


def usage_of_tool(tool: ToolHelp) -> str:
    """The help of `prime-lab-mcp call TOOL --help`."""
    lines = [f"usage: prime-lab-mcp call {tool.name} [--ARGUMENT VALUE ...]", ""]
    lines += [*textwrap.wrap(tool.description, _WIDTH), ""]
    lines += ["arguments:"] if tool.arguments else ["It takes no arguments."]
    for name, schema in tool.arguments.items():
        notes = [str(schema.get("description", "")).rstrip(".")] if schema.get("description") else []
        notes += [", ".join(_bounds(schema))] if _bounds(schema) else []
        notes += ["required"] if name in tool.required else []
        notes += [f"default: {json.dumps(schema['default'])}"] if "default" in schema else []
        head = f"  --{name} {_kind(schema)}".rstrip()
        text = "; ".join(notes)
        body = textwrap.wrap(text, _WIDTH - 32) or [""]
        lines += [f"{head:31} {body[0]}".rstrip()] if len(head) < 31 else [head, f"{'':31} {body[0]}".rstrip()]
        lines += [f"{'':31} {line}" for line in body[1:]]
    lines += ["", "Lists and objects are JSON. The options of every command: prime-lab-mcp call --help."]
    return "\n".join(lines)


def list_of_tools() -> str:
    """One line for each tool, in the order of the workflow."""
    lines = []
    for name in WORKFLOW:
        tool = tool_help(name)
        assert tool is not None
        lines.append(f"  {name:26} {textwrap.shorten(tool.first_sentence, _WIDTH - 29, placeholder=' ...')}")
    return "\n".join(["tools:", *lines, "", "prime-lab-mcp call TOOL --help shows the arguments of one."])


def parse_pairs(words: Sequence[str], tool: ToolHelp | None) -> dict[str, Any]:
    """Parse `--name value` pairs. `--name` without a value is true, and `--no-name` false where that is a boolean.

    A value is JSON where it can be, but a text where the schema takes nothing else. A list may be given as JSON, or by
    repeating its name. Raises ValueError for a word that is no `--name`.
    """
    schemas = tool.arguments if tool is not None else {}
    given: dict[str, Any] = {}
    items = list(words)
    while items:
        word = items.pop(0)
        if not word.startswith("--"):
            raise ValueError(f"expected --name value, got {word}")
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if not equals and name not in schemas and schemas.get(name.removeprefix("no_"), {}).get("type") == "boolean":
            given[name.removeprefix("no_")] = False
            continue
        if not equals:
            value = items.pop(0) if items and not items[0].startswith("--") else "true"
        schema = schemas.get(name, {})
        parsed = _value(value, schema)
        if schema.get("type") == "array" and not isinstance(parsed, list):
            parsed = [*given.get(name, ()), parsed]
        given[name] = parsed
    return given


def add_tool_parsers(call: argparse.ArgumentParser, names_of: Mapping[str, Any]) -> None:
    """Give `call` a sub-parser for each tool, for completion only. `names_of` has completers by argument name."""
    tools = call.add_subparsers(dest="tool")
    for name in WORKFLOW:
        tool = tool_help(name)
        assert tool is not None
        parser = tools.add_parser(name, help=tool.first_sentence.replace("%", "%%"))
        for argument, schema in tool.arguments.items():
            action = parser.add_argument(f"--{argument}", choices=schema.get("enum"), help=_completion_text(schema))
            if argument in names_of:
                action.completer = names_of[argument]  # type: ignore[attr-defined]  # argcomplete reads it


def _completion_text(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description", "")).replace("%", "%%")


def _value(text: str, schema: Mapping[str, Any]) -> Any:
    if set(_types(schema)) == {"string"}:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    for part in schema.get("anyOf", (schema,)):
        if "type" in part:
            yield part["type"]


_KINDS = {"string": "TEXT", "integer": "NUMBER", "number": "NUMBER", "array": "JSON", "object": "JSON", "boolean": ""}


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(str(value) for value in schema["enum"])
    return "|".join(dict.fromkeys(_KINDS[kind] for kind in _types(schema) if _KINDS[kind]))


def _bounds(schema: Mapping[str, Any]) -> list[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return [f"{low} to {high}"]
    return [f"at least {low}"] if low is not None else [f"at most {high}"] if high is not None else []
