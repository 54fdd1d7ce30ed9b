"""Defines the fix of a finding: a sentence for an agent that holds the calls it names as values.

    Fix("Run ", NamedCall("preflight", install=True), ", or leave ", SameCall.without("budget"), " out.")

reads `Run preflight(install=true), or leave budget out.` and knows both calls. A report recommends the calls of a fix
(server/fix_calls.py), so a fix names a call only by one of these values. A fix that names no call is a plain text.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any, TypeAlias

from prime_lab_mcp.lab.base.text import quote

Value: TypeAlias = str | bool | int | float | Sequence[Any] | Mapping[str, Any] | EllipsisType
"""The value of an argument. `...` stands for the value that the present call has for this argument, or for another
argument that means the same. A call whose `...` finds no value is not recommended."""


class NamedCall:
    """A call of a tool. Without arguments, the call takes what the tool cannot do without from the present call.

    `changed` and `without` keep the rest of the present call, if that is a call of the same tool.
    """

    def __init__(self, tool: str, /, **arguments: Value) -> None:
        self.tool = tool
        self.arguments: Mapping[str, Value] = arguments
        self.left_out: tuple[str, ...] = ()
        self.keeps_the_rest = False
        self.text = f"{tool}({_written_pairs(arguments)})" if arguments else tool

    def changed(self, **arguments: Value) -> NamedCall:
        """The call with these arguments; the sentence shows `TOOL with NAME=VALUE and NAME=VALUE`."""
        other = NamedCall(self.tool, **arguments)
        other.keeps_the_rest = True
        other.text = f"{self.tool} with {_written_pairs(arguments, ' and ')}"
        return other

    def without(self, name: str) -> NamedCall:
        """The call without an argument; the sentence shows `TOOL without NAME`."""
        other = NamedCall(self.tool)
        other.keeps_the_rest, other.left_out = True, (name,)
        other.text = f"{self.tool} without {name}"
        return other

    def shown(self, text: str) -> NamedCall:
        """The same call; the sentence shows it as `text`."""
        other = copy.copy(self)
        other.text = text
        return other

    @property
    def bare(self) -> NamedCall:
        """The same call; the sentence shows only its tool."""
        return self.shown(self.tool)


class SameCall:
    """The present call with changes. An argument that the present tool does not have is no change."""

    def __init__(self, **changes: Value) -> None:
        self.changes: Mapping[str, Value] = changes
        self.left_out: tuple[str, ...] = ()
        self.text = _written_pairs(changes)

    @classmethod
    def without(cls, *names: str) -> SameCall:
        """The present call without some arguments. The sentence shows their names."""
        other = cls()
        other.left_out = names
        other.text = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]
        return other

    def shown(self, text: str) -> SameCall:
        """The same call; the sentence shows it as `text`."""
        other = copy.copy(self)
        other.text = text
        return other


FixCall: TypeAlias = NamedCall | SameCall


class Fix(str):
    """The sentence of a fix, with the calls that it names in their order.

    The parts of a sentence are texts, calls and other fixes. `+` keeps the calls; an f-string of a fix loses them.
    """

    calls: tuple[FixCall, ...]

    def __new__(cls, *parts: str | FixCall) -> Fix:
        sentence = super().__new__(cls, "".join(part if isinstance(part, str) else part.text for part in parts))
        sentence.calls = tuple(call for part in parts for call in _calls_of_part(part))
        return sentence

    @classmethod
    def from_record(cls, text: str, calls: Sequence[Mapping[str, Any]]) -> Fix:
        """The fix of a record: its sentence, and what `calls_record` returned for it."""
        fix = cls(text)
        fix.calls = tuple(map(_recorded_call, calls))
        return fix

    def __getnewargs__(self) -> tuple[str]:
        return (str(self),)

    def __add__(self, other: str) -> Fix:
        return Fix(self, other)

    def __radd__(self, other: str) -> Fix:
        return Fix(other, self)


def calls_named_in(fix: str) -> tuple[FixCall, ...]:
    """The calls that a fix names; none for a plain text."""
    return fix.calls if isinstance(fix, Fix) else ()


def calls_record(fix: str) -> list[dict[str, Any]]:
    """The calls that a fix names as JSON values, for records that outlive this process."""
    return [_call_record(call) for call in calls_named_in(fix)]


def _call_record(call: FixCall) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call, NamedCall) else call.changes
    return {
        "tool": call.tool if isinstance(call, NamedCall) else None,
        "arguments": {name: value for name, value in arguments.items() if value is not ...},
        "from_present_call": [name for name, value in arguments.items() if value is ...],
        "left_out": list(call.left_out),
        "keeps_the_rest": isinstance(call, SameCall) or call.keeps_the_rest,
    }


def _recorded_call(record: Mapping[str, Any]) -> FixCall:
    arguments: dict[str, Value] = {**record["arguments"], **dict.fromkeys(record["from_present_call"], ...)}
    call = SameCall(**arguments) if record["tool"] is None else NamedCall(record["tool"], **arguments)
    call.left_out = tuple(record["left_out"])
    if isinstance(call, NamedCall):
        call.keeps_the_rest = record["keeps_the_rest"]
    return call


def _calls_of_part(part: str | FixCall) -> tuple[FixCall, ...]:
    return calls_named_in(part) if isinstance(part, str) else (part,)


def _written_pairs(arguments: Mapping[str, Value], between: str = ", ") -> str:
    return between.join(f"{name}={_written(value)}" for name, value in arguments.items())


def _written(value: Value) -> str:
    """A value as calls are written for agents: as in JSON."""
    if value is ...:
        return "..."
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quote(key)}: {_written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_written, value))}]"
    return str(value)
