"""What the arguments of a generating taskset change: the same arguments twice, another seed, other levels."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from .protocol import GeneratorReply

if TYPE_CHECKING:
    from .adapter_v1 import AdapterV1

TASKS = 24
"""Tasks that are compared."""
_SLOW = 5.0
"""Seconds of loading from which nothing is loaded again: that taskset reads data and generates nothing."""
_SECONDS = 6.0
"""Seconds after which no other arguments are tried."""
_SEED = "seed"
_LEVELS = frozenset({"level", "levels", "difficulty", "difficulties", "tier", "stage", "hardness"})
_EVERY = frozenset({"all", "any", "mixed", "mix", "every"})


def compared(adapter: AdapterV1) -> list[GeneratorReply]:
    """For each pair of arguments whether they gave the same tasks. Empty for a taskset without a seed or levels."""
    if adapter.infinite or adapter.load_seconds > _SLOW:
        return []
    found: list[GeneratorReply] = []
    deadline = time.monotonic() + _SECONDS
    for argument, first, second in _pairs(adapter.taskset.config):
        if time.monotonic() > deadline:
            break
        try:
            before, after = _tasks(adapter, argument, first), _tasks(adapter, argument, second)
        except Exception:
            continue  # an argument that is refused is the environment's own business
        if before and after:
            found.append({"argument": argument, "values": [str(first), str(second)], "same": before == after})
    return found


def _pairs(config: Any) -> Iterator[tuple[str, Any, Any]]:
    """An argument with two values. The same value twice shows whether the tasks follow from the arguments."""
    fields = type(config).model_fields
    seed = getattr(config, _SEED, None)
    if not isinstance(seed, int) or isinstance(seed, bool):
        return
    yield _SEED, seed, seed
    yield _SEED, seed, seed + 1
    for name, field in fields.items():
        levels = [c for c in get_args(field.annotation) if str(c).lower() not in _EVERY]
        if name.lower() in _LEVELS and get_origin(field.annotation) is Literal and len(levels) > 1:
            yield name, levels[0], levels[-1]


def _tasks(adapter: AdapterV1, argument: str, value: Any) -> list[str]:
    """The data of the first tasks, without the argument itself."""
    config = adapter.taskset.config
    other = adapter.kind(type(config).model_validate({**config.model_dump(), argument: value}))
    return [_data(task, argument, value) for task in islice(iter(other), TASKS)]


def _data(task: Any, argument: str, value: Any) -> str:
    data = task.data.model_dump(mode="json")
    text = json.dumps({k: v for k, v in data.items() if k != argument}, sort_keys=True, default=str)
    return text.replace(str(value), "") if isinstance(value, str) else text
