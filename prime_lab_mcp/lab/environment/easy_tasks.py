"""Finds the environment arguments that select its easiest tasks, for the advice to train on easy tasks first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.worker.description import Arg

_EASIEST = ("easiest", "very easy", "very_easy", "easy", "beginner", "simple", "basic", "introductory", "elementary")
"""Names of levels whose tasks are the easiest, from the easiest on (our choice)."""
LEVEL_NAMES = frozenset({"level", "levels", "difficulty", "difficulties", "tier", "stage", "hardness"})
"""Names of arguments and columns that say how hard the tasks are. Choices are listed from the easiest on, and of
numbers the lowest is the easiest."""
ALL_LEVELS = frozenset({"all", "any", "mixed", "mix", "every"})
_MOST_LEVELS = 12
_SELECTING = "where"
"""The argument of created environments that selects tasks by their metadata."""
_LONGEST = 60


def easiest_arguments(args: Sequence[Arg], fields: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return arguments that select the easiest tasks, such as `{"level": "easy"}` or `{"where": {"level": ["easy"]}}`.

    `fields` are the fields of the tasks. None if no argument is known to select tasks by their difficulty.
    """
    for arg in args:
        levels = [choice for choice in arg.choices if str(choice).casefold() not in ALL_LEVELS]
        if _counts_levels(arg.name) and "." not in arg.name and len(levels) > 1:
            return {arg.name: levels[0]}
    if not any(arg.name == _SELECTING and arg.type.startswith("dict[str, list") for arg in args):
        return None
    for name, values in sorted(_columns(fields).items(), key=lambda column: not _counts_levels(column[0])):
        easiest = _easiest([value for value in values if isinstance(value, str)])
        numbers = sorted(value for value in values if isinstance(value, int) and not isinstance(value, bool))
        if easiest is not None:
            return {_SELECTING: {name: [easiest]}}
        if _counts_levels(name) and len(numbers) == len(values):
            return {_SELECTING: {name: [numbers[0]]}}
    return None


def _easiest(names: Sequence[str]) -> str | None:
    for word in _EASIEST:
        for name in names:
            if name.strip().lower() == word and len(name) <= _LONGEST:
                return name
    return None


def _counts_levels(name: str) -> bool:
    return name.casefold() in LEVEL_NAMES


def _columns(fields: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each column of the tasks' metadata that has a few different values."""
    columns: dict[str, dict[Any, None]] = {}
    for name, value in _cells(fields):
        columns.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in columns.items() if 2 <= len(values) <= _MOST_LEVELS}


def _cells(fields: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    for task in fields:
        metadata = task.get("metadata")
        for name, value in metadata.items() if isinstance(metadata, Mapping) else ():
            if isinstance(value, str | int | float) and isinstance(name, str) and len(name) <= _LONGEST:
                yield name, value
