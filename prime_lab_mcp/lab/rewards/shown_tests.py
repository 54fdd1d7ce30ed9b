"""Finds tests that a task calls hidden although its prompt shows them.

A task may show examples of inputs with their results, and promise that further examples are tried. If the further
examples are drawn with the same seed, they are the shown ones, and a table of the shown results is paid like a program.
No probe can write such a table, because the language of the task is not known. This module therefore compares the
stored tests with the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.datasets.task_golds import whole_prompt
from prime_lab_mcp.lab.worker.description import Row

_FEWEST_TASKS, _FEWEST_TESTS, _SHARE = 5, 2, 0.9
"""Smallest number of tasks, smallest number of tests of a task, and share of the tasks whose prompts must show the
tests (our choice)."""
_TRIED = r"(?:tested|tried|checked|run|evaluated|judged|graded|scored)"
_FURTHER = r"(?:hidden|held[- ]?out|further|other|unseen|additional|new|more|different|secret)"
_PROMISED = re.compile(
    rf"(?i)\b{_TRIED}\b[^.\n]{{0,60}}\b{_FURTHER}\b|\b{_FURTHER}\b[^.\n]{{0,40}}"
    r"\b(?:tests?|inputs?|cases?|examples?|lists?|values?)\b"
)


@dataclass(frozen=True, slots=True)
class ShownTests:
    """Tasks whose prompts promise further tests, and state all stored tests that the reward reads."""

    field: str
    rows: tuple[int, ...]
    tasks: int
    """Number of tasks with such tests."""
    example: str


def find_shown_tests(rows: Sequence[Row], source: str) -> ShownTests | None:
    """Return the field whose tests stand in the prompts of nearly all tasks; None if there is none.

    If the code reads another field with tests that a prompt does not state, the tests are hidden.
    """
    stated: dict[str, list[int]] = {}
    hidden: dict[str, list[int]] = {}
    examples: dict[str, str] = {}
    for row in rows:
        prompt = whole_prompt(row)
        if not _PROMISED.search(prompt):
            continue
        flat = _flat(prompt)
        for name, tests in _tests_of(row):
            if not _is_read(name, source):
                continue
            shown = all(_flat(value) in flat for test in tests for value in test)
            (stated if shown else hidden).setdefault(name, []).append(row.index)
            examples.setdefault(name, " -> ".join(tests[0]))
    if not stated or any(len(found) > (1 - _SHARE) * len(rows) for found in hidden.values()):
        return None
    name, found = max(stated.items(), key=lambda pair: len(pair[1]))
    tasks = len(found) + len(hidden.get(name, ()))
    if len(found) < _FEWEST_TASKS or len(found) < _SHARE * tasks:
        return None
    return ShownTests(name, tuple(found), tasks, examples[name])


def _tests_of(row: Row) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the fields of a task that are lists of tests, with the values of each test as texts."""
    fields: dict[str, Any] = dict(row.fields)
    fields |= dict(row.info) if isinstance(row.info, Mapping) else {}
    for name, value in fields.items():
        if not isinstance(value, list | tuple) or len(value) < _FEWEST_TESTS:
            continue
        tests = [list(v.values()) if isinstance(v, Mapping) else v for v in value]
        if all(isinstance(test, list | tuple) and len(test) == 2 for test in tests):
            yield str(name), [[v if isinstance(v, str) else json.dumps(v) for v in test] for test in tests]


def _flat(text: str) -> str:
    """Return a text without what differs between two ways to write the same values."""
    return re.sub(r"[\s\"']", "", text).casefold()


def _is_read(name: str, source: str) -> bool:
    """Whether the code reads a field of the task's data."""
    named = re.escape(name)
    return re.search(rf"\b(?:data|info|task)(?:\.{named}\b|(?:\.get\(|\[)[\"']{named}[\"'])", source) is not None
