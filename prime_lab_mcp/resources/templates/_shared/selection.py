"""Which rows become tasks: those whose metadata fit, and so many of them at most."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SEED = 7


def selected(
    rows: Iterable[dict[str, Any]], where: Mapping[str, Sequence[Any]] | None, number: int | None = None
) -> list[dict[str, Any]]:
    """The rows whose metadata have one of the wanted values of each field; at most `number`, drawn with a fixed seed.

    Raises ValueError for a field that no row has.
    """
    found: list[dict[str, Any]] = []
    fields: set[str] = set()
    for row in rows:
        metadata = row.get("metadata") or {}
        fields |= metadata.keys()
        if all(metadata.get(name) in wanted for name, wanted in (where or {}).items()):
            found.append(row)
    unknown = sorted((where or {}).keys() - fields)
    if unknown:
        known = ", ".join(sorted(fields)) or "none"
        raise ValueError(f"where names {', '.join(unknown)}, which no task has; the fields of tasks are: {known}")
    if number is None or number >= len(found):
        return found
    return [found[n] for n in sorted(random.Random(SEED).sample(range(len(found)), number))]
