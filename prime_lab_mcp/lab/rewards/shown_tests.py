"""Finds stored tests that all stand in the prompt of their task.

A task may show examples of inputs with their results, and promise that further examples are tried, or ask for a program
that is right for every input. If the tests are the shown examples, a table of the shown results is paid like a program.
No probe can write such a table, because the language of the task is not known. This module therefore compares the
stored tests with the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from prime_lab_mcp.lab.datasets.answer_syntax import parsed_json
from prime_lab_mcp.lab.datasets.task_golds import whole_prompt
from prime_lab_mcp.lab.worker.description import Row

_FEWEST_TASKS, _FEWEST_TESTS, _SHARE = 5, 2, 0.9
"""Smallest number of tasks, smallest number of tests of a task, and share of the tasks whose prompts must show the
tests (our choice)."""
_NEAR = 60
"""Most characters without white space between an input and its result (our choice)."""
_TRIED = r"(?:tested|tried|checked|run|evaluated|judged|graded|scored)"
_FURTHER = r"(?:hidden|held[- ]?out|further|other|unseen|additional|new|more|different|secret)"
_INPUTS = r"(?:tests?|inputs?|cases?|examples?|lists?|values?|arguments?)"
_PROMISED = re.compile(rf"(?i)\b{_TRIED}\b[^.\n]{{0,60}}\b{_FURTHER}\b|\b{_FURTHER}\b[^.\n]{{0,40}}\b{_INPUTS}\b")
_ASKED_FOR_ALL = re.compile(
    rf"(?i)\b(?:right|correct|works?) (?:for|on|with) (?:every|any|all)\b[^.\n]{{0,30}}\b{_INPUTS}\b"
)
_NAMED_TESTS = re.compile(r"(?i)test|case|assert|held|hidden")
"""Matches the names of fields of tests. Only a promise shows that other pairs, such as examples, are tests."""


@dataclass(frozen=True, slots=True)
class ShownTests:
    """Tasks whose prompts state all stored tests that the reward reads."""

    field: str
    rows: tuple[int, ...]
    tasks: int
    """Number of tasks with such tests."""
    example: str
    more_asked: bool
    """Whether the prompts promise further tests, or ask for a program that is right for every input."""


def find_shown_tests(rows: Sequence[Row], source: str) -> ShownTests | None:
    """Return the field whose tests stand in the prompts of nearly all tasks; None if there is none.

    If the code reads another field with tests that a prompt does not state, the tests are hidden.
    """
    stated: dict[str, list[int]] = {}
    hidden: dict[str, list[int]] = {}
    examples: dict[str, str] = {}
    more_asked: set[int] = set()
    is_read = cache(lambda name: _is_read(name, source))  # The rows have the same fields.
    for row in rows:
        prompt = whole_prompt(row)
        promised = _PROMISED.search(prompt) is not None
        if promised or _ASKED_FOR_ALL.search(prompt):
            more_asked.add(row.index)
        for name, tests in _tests_of(row):
            if not (promised or _NAMED_TESTS.search(name)) or not is_read(name):
                continue
            flat = _flat(prompt)
            shown = all(_is_shown(flat, given, result) for given, result in tests)
            (stated if shown else hidden).setdefault(name, []).append(row.index)
            examples.setdefault(name, " -> ".join(tests[0]))
    if not stated or any(len(found) > (1 - _SHARE) * len(rows) for found in hidden.values()):
        return None
    name, found = max(stated.items(), key=lambda pair: len(pair[1]))
    tasks = len(found) + len(hidden.get(name, ()))
    if len(found) < _FEWEST_TASKS or len(found) < _SHARE * tasks:
        return None
    return ShownTests(
        name, tuple(found), tasks, examples[name], len(more_asked.intersection(found)) >= _SHARE * len(found)
    )


def _tests_of(row: Row) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the fields of a task that are lists of tests, or JSON of such lists, with the values of each test."""
    fields: dict[str, Any] = dict(row.fields)
    fields |= dict(row.info) if isinstance(row.info, Mapping) else {}
    for name, value in fields.items():
        listed = parsed_json(value) if isinstance(value, str) else value
        if not isinstance(listed, list | tuple) or len(listed) < _FEWEST_TESTS:
            continue
        tests = [list(v.values()) if isinstance(v, Mapping) else v for v in listed]
        if all(isinstance(test, list | tuple) and len(test) == 2 for test in tests):
            yield str(name), [(_as_text(given), _as_text(result)) for given, result in tests]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _is_shown(prompt: str, given: str, result: str) -> bool:
    """Whether a flat prompt has an input with its result soon after. A list may stand as the arguments of a call."""
    asked = _flat(given)
    forms = [asked, f"({asked[1:-1]})"] if asked.startswith("[") else [asked]
    return any(re.search(rf"{_whole(form)}.{{0,{_NEAR}}}?{_whole(_flat(result))}", prompt) for form in forms)


def _whole(value: str) -> str:
    """Return a pattern for a value that is not part of a longer number."""
    before = r"(?<!\d)(?<!\d\.)" if value[:1].isdigit() else ""
    return f"{before}{re.escape(value)}(?!\\d)"


def _flat(text: str) -> str:
    """Return a text without what differs between two ways to write the same values."""
    return re.sub(r"[\s\"']", "", text).casefold()


def _is_read(name: str, source: str) -> bool:
    """Whether the code reads a field of the task's data."""
    named = re.escape(name)
    return (
        re.search(rf"\b(?:data|info|task)(?:[\"']\])?(?:\.{named}\b|(?:\.get\(|\[)[\"']{named}[\"'])", source)
        is not None
    )
