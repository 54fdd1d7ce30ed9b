"""Duplicates, conflicts and leaks among all rows, counted from their digests.

The counting goes by parts of the digests' range, so it needs memory for a part of the rows at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

from prime_lab_mcp.lab.datasets.digests import Digests
from prime_lab_mcp.lab.datasets.plain import SHOWN, Repeats, Tally
from prime_lab_mcp.lab.datasets.value_keys import EMPTY
from prime_lab_mcp.lab.text import quote

PART = 500_000
"""Rows looked at together, about."""
_LOOKED_AT = 20_000
"""Flawed rows that are searched for ones whose text is known, to show them."""

TextOf = Callable[[int], str | None]


def task_keys(digests: Digests, prompt: Sequence[str]) -> array[int] | None:
    """One digest per row of what it asks, its options included; None when a column of the prompt has none."""
    columns = [digests.columns.get(name) for name in prompt]
    parts = [column.prompt for column in columns if column is not None and not column.answers_only]
    if not parts or digests.dropped or len(parts) < len(columns):
        return None
    if digests.options:
        parts.append(digests.offered)
    if len(parts) == 1:
        return parts[0]
    return array("q", map(hash, zip(*parts, strict=True)))


def gold_keys(digests: Digests, answer: str) -> array[int] | None:
    """One digest per row of what its answer says; None when the column has none."""
    kept = digests.columns.get(answer)
    if kept is None or digests.dropped:
        return None
    return kept.golds(from_one=answer not in digests.zero_seen)


class _Flaws:
    """Rows with a flaw: how many, and the first of those whose text is known."""

    def __init__(self) -> None:
        self.total = 0
        self._first: list[tuple[int, int]] = []

    def add(self, row: int, other: int) -> None:
        self.total += 1
        if len(self._first) < _LOOKED_AT:
            self._first.append((row, other))

    def tally(self, text: TextOf, other_text: TextOf, other_name: str) -> Tally:
        entries = sorted(self._first)
        known = [(row, other) for row, other in entries if text(row) is not None or other_text(other) is not None]
        tally = Tally(total=self.total)
        for row, other in (known or entries)[:SHOWN]:
            shown = text(row) or other_text(other)
            value = {} if shown is None else {"value": quote(shown, 160)}
            tally.shown.append({"row": row, **value, other_name: other})
        return tally


def count_repeats(
    keys: array[int],
    golds: array[int] | None,
    held: array[int] | None,
    *,
    text: TextOf,
    held_text: TextOf,
) -> Repeats:
    """Count over `keys` of the rows to train on and `held` of those held out. Texts are given where they are known.

    A duplicate repeats an earlier prompt; a conflict is one that answers differently than the first; a leak is a
    held-out row whose prompt is trained on.
    """
    duplicates, conflicts, leaks = _Flaws(), _Flaws(), _Flaws()
    parts = max(1, len(keys) // PART)
    held_parts = list(_parts(held or array("q"), parts))
    for rows, held_rows in zip(_parts(keys, parts), held_parts, strict=True):
        first: dict[int, int] = {}
        for row in rows:
            known = first.setdefault(keys[row], row)
            if known == row:
                continue
            duplicates.add(row, known)
            if golds is not None and EMPTY not in (golds[row], golds[known]) and golds[row] != golds[known]:
                conflicts.add(row, known)
        for row in held_rows:
            assert held is not None
            if held[row] in first:
                leaks.add(row, first[held[row]])
    return Repeats(
        rows=len(keys),
        held_out=len(held or ()),
        duplicates=duplicates.tally(text, text, "first_row"),
        conflicts=conflicts.tally(text, text, "first_row"),
        leaks=leaks.tally(held_text, text, "train_row"),
    )


def _parts(keys: array[int], parts: int) -> Iterator[Sequence[int]]:
    if parts == 1:
        yield range(len(keys))
        return
    found = [array("L") for _ in range(parts)]
    for row, key in enumerate(keys):
        found[key % parts].append(row)
    yield from found
