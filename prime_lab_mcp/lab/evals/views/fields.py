"""What can be asked of a rollout by name: its own numbers, components, metrics, and the fields of its task."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.evals.conversation import task_data
from prime_lab_mcp.lab.evals.results import Rollout

MISSING = object()
"""Stands for a field that a rollout does not have."""
_DEPTH = 3
_FIELDS = 60
"""Fields of a task looked at; more are no metadata but a document."""

OWN: Mapping[str, Callable[[Rollout], Any]] = {
    "reward": lambda r: MISSING if r.reward is None else r.reward,
    "task": lambda r: r.task,
    "id": lambda r: r.id,
    "stop": lambda r: r.stop or "",
    "error": lambda r: r.error is not None,
    "truncated": lambda r: r.truncated,
    "tokens": lambda r: r.completion_tokens,
    "prompt_tokens": lambda r: r.prompt_tokens,
    "seconds": lambda r: r.seconds,
}
"""Of every rollout. `tokens` are those of the completion."""


def value_of(rollout: Rollout, name: str) -> Any:
    """The value of a field, or MISSING. A rollout's own come first, then components, metrics, fields of the task."""
    if name in OWN:
        return OWN[name](rollout)
    if name in rollout.components:
        return rollout.components[name][0]
    if name in rollout.metrics:
        return rollout.metrics[name]
    return inside(task_data(rollout), name)


def inside(data: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, where a key that holds dots itself comes first; MISSING when there is none."""
    if path in data:
        return data[path]
    for end in (i for i, c in enumerate(path) if c == "."):
        below = data.get(path[:end])
        if isinstance(below, Mapping):
            found = inside(below, path[end + 1 :])
            if found is not MISSING:
                return found
    return MISSING


def flat(data: Mapping[str, Any], depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every text, number and truth value in the fields of a task; lists are left out."""
    for key, value in itertools.islice(data.items(), _FIELDS):
        if isinstance(value, Mapping):
            if depth > 1:
                for path, inner in flat(value, depth - 1):
                    yield f"{key}.{path}", inner
        elif isinstance(value, str | int | float | bool):
            yield str(key), value
