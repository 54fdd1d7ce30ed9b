"""Decodes the worker's description of a loaded v0 environment: the places of its functions, and their values.

All names in the description are untrusted text. A name that becomes code must be an identifier, and a place must be in
a file of the snapshot.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.worker.faults import nonsense


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A line of a file of the old package. `path` is empty if the code is in no file of the package."""

    path: str
    line: int

    @property
    def is_known(self) -> bool:
        return bool(self.path)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class OldFunction:
    """A function of the old package. `free` has the values of the variables that it uses from the enclosing
    function."""

    name: str
    place: CodePlace
    bound: bool = False
    free: Mapping[str, OldValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OldClass:
    """A class of the old package. `attributes` are those of its instance. `bases` are its base classes in the
    package."""

    name: str
    place: CodePlace
    bases: tuple[str, ...]
    attributes: Mapping[str, OldValue]


@dataclass(frozen=True, slots=True)
class OldParser:
    """A parser: its class in verifiers (`kind`), the fields of its tags, and the function that it applies to
    the text."""

    kind: str
    fields: tuple[tuple[str, ...], ...]
    answer_field: str
    extract: Mapping[str, Any]
    extracts: OldFunction | None = None
    own: OldClass | None = None


@dataclass(frozen=True, slots=True)
class OldValue:
    """A value of the old environment: a constant, a parser or a function. `other` describes a value of another kind."""

    constant: Any = None
    type: str = ""
    parser: OldParser | None = None
    function: OldFunction | None = None
    other: str = ""


@dataclass(frozen=True, slots=True)
class OldReward:
    """A reward function with its weight. If verifiers defines the function, `library` is its qualified name; for a
    method, `library` is `method`."""

    name: str
    weight: float | None
    library: str
    rubric: str
    group: bool
    function: OldFunction
    parser: OldParser | None


@dataclass(frozen=True, slots=True)
class OldEnvironment:
    """A loaded v0 environment. `base` is its nearest class in verifiers, `own` its class in the package, if there is
    one."""

    base: str
    own: OldClass | None
    max_turns: int | None
    tools: tuple[OldFunction, ...]
    rewards: tuple[OldReward, ...]
    parser: OldParser | None
    objects: tuple[str, ...]


def decode_description(reply: Mapping[str, Any], files: Sequence[str]) -> OldEnvironment:
    """Decode a worker's description of a loaded v0 environment. `files` are the Python files of its snapshot.

    Raises WorkerError if the reply is invalid.
    """
    try:
        return _Decoder(files).environment(reply)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("facts", reply) from error


def is_name(text: str) -> bool:
    """Whether an untrusted text can be written into code as a name."""
    return text.isidentifier() and not keyword.iskeyword(text) and text.isascii()


class _Decoder:
    def __init__(self, files: Sequence[str]) -> None:
        self._files = sorted(files, key=len, reverse=True)

    def environment(self, reply: Mapping[str, Any]) -> OldEnvironment:
        turns = reply["max_turns"]
        return OldEnvironment(
            base=str(reply["base"]),
            own=self._class(reply["own"]),
            max_turns=None if turns is None else int(turns),
            tools=tuple(map(self._function, reply["tools"])),
            rewards=tuple(map(self._reward, reply["rewards"])),
            parser=self._parser(reply["parser"]),
            objects=tuple(map(str, reply["objects"])),
        )

    def _reward(self, reply: Mapping[str, Any]) -> OldReward:
        weight = reply["weight"]
        number = None if weight is None or not math.isfinite(float(weight)) else float(weight)
        return OldReward(
            str(reply["name"]),
            number,
            str(reply["library"]),
            str(reply["rubric"]),
            bool(reply["group"]),
            self._function(reply["function"]),
            self._parser(reply["parser"]),
        )

    def _function(self, reply: Mapping[str, Any]) -> OldFunction:
        free = {str(n): self._value(v) for n, v in dict(reply["free"]).items()}
        return OldFunction(str(reply["name"]), self._place(reply), bool(reply["bound"]), free)

    def _class(self, reply: Mapping[str, Any] | None) -> OldClass | None:
        if reply is None:
            return None
        attributes = {str(n): self._value(v) for n, v in dict(reply["held"]).items()}
        return OldClass(str(reply["name"]), self._place(reply), tuple(map(str, reply["own_bases"])), attributes)

    def _parser(self, reply: Mapping[str, Any] | None) -> OldParser | None:
        if reply is None:
            return None
        extract = dict(reply["extract"])
        function = self._function(extract["function"]) if extract.get("kind") == "function" else None
        fields = tuple(tuple(map(str, names)) for names in reply["fields"])
        return OldParser(
            str(reply["kind"]), fields, str(reply["answer_field"]), extract, function, self._class(reply["own"])
        )

    def _value(self, reply: Mapping[str, Any]) -> OldValue:
        if "constant" in reply:
            return OldValue(constant=reply["constant"], type=str(reply.get("type", "")))
        if "parser" in reply:
            return OldValue(parser=self._parser(reply["parser"]), type="parser")
        if "function" in reply:
            return OldValue(function=self._function(reply["function"]), type="function")
        return OldValue(other=str(reply.get("other", "")) or "unknown", type="other")

    def _place(self, reply: Mapping[str, Any]) -> CodePlace:
        loaded = str(reply["file"])
        path = next((p for p in self._files if loaded == p or loaded.endswith(f"/{p}")), "")
        return CodePlace(path, int(reply["line"]))
