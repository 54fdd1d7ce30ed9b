"""Removes rows of JSON lines by their number, and finds the rows of training tasks that are held out too."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.golds import normalised_text
from prime_lab_mcp.lab.datasets.task_golds import prompt_of
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.worker.description import Row

MOST_REMOVED = 500
"""Most rows that one call removes. A split that lost more is better made anew from its data."""
_LARGEST_FILE = 64 * 1024 * 1024


def without_rows(text: str, numbers: Collection[int], named: str) -> str:
    """The lines without some rows, counted from 0; blank lines are no rows. Raises BadInput for a row that is not
    there."""
    lines = text.splitlines(keepends=True)
    rows = [place for place, line in enumerate(lines) if line.strip()]
    absent = sorted(n for n in set(numbers) if not 0 <= n < len(rows))
    if absent:
        raise BadInput(
            f"{quote(named, 120)} has {count(len(rows), 'row')}, numbered from 0, and none is number {absent[0]}",
            fix=Fix("Call ", NamedCall("check_environment"), ": its findings have the numbers of the rows."),
            code="bad-argument",
        )
    removed = {rows[n] for n in numbers}
    return "".join(line for place, line in enumerate(lines) if place not in removed)


def removal_call(environment: str, path: str, numbers: Sequence[int]) -> NamedCall:
    """The call of `edit_environment` that removes rows of a file."""
    call = NamedCall("edit_environment", environment=environment, path=path, remove_rows=list(numbers))
    listed = ", ".join(map(str, numbers[:_LISTED])) + (", ..." if len(numbers) > _LISTED else "")
    return call.shown(f"edit_environment with path={quote(path, 200)} and remove_rows=[{listed}]")


_LISTED = 10


def lines_held_out(train: str, held_out: str) -> tuple[int, ...]:
    """Numbers of the lines of `train` whose task, apart from its metadata, is one of `held_out`."""
    others = {_task_key(line) for line in held_out.splitlines() if line.strip()}
    lines = (line for line in train.splitlines() if line.strip())
    return tuple(number for number, line in enumerate(lines) if _task_key(line) in others)


def _task_key(line: str) -> str:
    task: Mapping[str, Any] = json.loads(line)
    return json.dumps({name: value for name, value in task.items() if name != "metadata"}, sort_keys=True)


def leak_removal(environment: str, snapshot: Snapshot, train: Sequence[Row], held_out: Sequence[Row]) -> Fix | None:
    """The fix that removes the training tasks that are held out too from the file of JSON lines that holds them.

    None if no file is known to hold the tasks in their order: line n of the file must have the prompt of task n.
    """
    others = {normalised_text(prompt_of(row)) for row in held_out}
    leaked = [row for row in train if normalised_text(prompt_of(row)) in others]
    if not leaked or len(leaked) > MOST_REMOVED:
        return None
    for path in snapshot.files:
        if path.endswith(".jsonl") and _holds(snapshot, path, leaked):
            call = removal_call(environment, path, [row.index for row in leaked])
            return Fix("Call ", call, ", which removes them from the training split.")
    return None


def _holds(snapshot: Snapshot, path: str, tasks: Sequence[Row]) -> bool:
    """Whether the lines of a file with the numbers of the tasks have the tasks' prompts."""
    file = snapshot.tree / path
    try:
        if file.stat().st_size > _LARGEST_FILE:
            return False
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        rows = [json.loads(lines[task.index]) for task in tasks if task.index < len(lines)]
    except (OSError, ValueError, RecursionError):
        return False
    return len(rows) == len(tasks) and all(_has_prompt(row, task) for row, task in zip(rows, tasks, strict=True))


def _has_prompt(row: Any, task: Row) -> bool:
    prompt = normalised_text(prompt_of(task))
    return any(text and (text in prompt or prompt in text) for text in map(normalised_text, _texts(row)))


_SHORTEST_PROMPT = 12
"""Characters. A shorter text of a row may stand in a prompt by chance, such as an answer."""


def _texts(value: Any) -> list[str]:
    """The longer texts of a row, at any depth."""
    if isinstance(value, str):
        return [value] if len(value) >= _SHORTEST_PROMPT else []
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for one in inside for text in _texts(one)]
