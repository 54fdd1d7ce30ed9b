"""Draws the tasks of an evaluation in equal shares by the values of a task field, such as its level."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.worker.description import Row

MOST_VALUES = 50
"""Largest number of values of a field by which tasks are drawn. A field with more, such as an id, names one task."""


def drawn_tasks(rows: Sequence[Row], by: str, size: int, seed: int) -> tuple[int, ...]:
    """Return the indices of `size` tasks, in which every value of the field `by` has the same share where it can.

    The values take turns, each with its tasks in an order that the seed decides. Raises BadInput for a field that the
    tasks do not have, or that has more than `MOST_VALUES` values.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        groups[_value_text(row, by)].append(row.index)
    if set(groups) <= {"null"}:
        known = ", ".join(quote(name, 40) for name in _names(rows)[:12]) or "none"
        raise BadInput(f"the tasks have no field {quote(by, 60)}", fix=f"Name one of their fields ({known}).")
    if len(groups) > MOST_VALUES:
        raise BadInput(
            f"the field {quote(by, 60)} has {len(groups)} values, which are too many to draw by",
            fix=Fix(
                "Name a field with few values, such as a level or a kind, or leave ", SameCall.without("by"), " out."
            ),
        )
    queues = []
    for value in sorted(groups):
        random.Random(f"{seed}/{value}").shuffle(groups[value])
        queues.append(groups[value][::-1])
    drawn: list[int] = []
    while queues and len(drawn) < size:
        for queue in queues:
            if queue and len(drawn) < size:
                drawn.append(queue.pop())
        queues = [queue for queue in queues if queue]
    return tuple(sorted(drawn))


def draw_bias(rows: Sequence[Row], drawn: Sequence[int], by: str) -> float:
    """Return the share of the drawn tasks, 0 to 1, that would have another value of the field in a plain draw.

    Half of the sum of the differences between the shares of each value (the total variation distance).
    """
    chosen = set(drawn)
    every = Counter(_value_text(row, by) for row in rows)
    taken = Counter(_value_text(row, by) for row in rows if row.index in chosen)
    if not taken:
        return 0.0
    return sum(abs(taken[value] / taken.total() - number / every.total()) for value, number in every.items()) / 2


def _value_text(row: Row, by: str) -> str:
    """Return the value of a field, or of a field of the task's metadata, as JSON; `null` for none."""
    metadata = row.fields.get("metadata")
    value = row.fields.get(by, metadata.get(by) if isinstance(metadata, Mapping) else None)
    return json.dumps(value, sort_keys=True, default=str)


def _names(rows: Sequence[Row]) -> list[str]:
    fields = rows[0].fields if rows else {}
    metadata = fields.get("metadata")
    return [*fields, *(metadata if isinstance(metadata, Mapping) else ())]
