"""Finds a label of the prompts behind which the answer stands, such as `closing_balance` in a record of transactions.

A model that copies what stands behind the label then solves nothing. Whether the task is to read this very entry, as in
extraction, is not known from the prompts, so that the result is a reason to look and no verdict.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

_NAME = r"[A-Za-z][\w -]{0,39}?"
_ENTRY = re.compile(
    rf"""["'*]{{0,2}}\b({_NAME})["'*]{{0,2}}[ \t]*[:=][ \t]*["'$€£*]{{0,2}}"""
    r"""([^\s"'{}\[\];|][^"'{};|\n]{0,79})"""
)
"""An entry such as `"total": 41`, `Total: 41` or `total = 41`."""
_ELEMENT = re.compile(r"<([A-Za-z][\w-]{0,39})>([^<\n]{1,80})</")
_CELL = re.compile(rf"(?m)^[ \t]*\|[ \t]*({_NAME})[ \t]*\|[ \t]*([^|\n]{{1,80}}?)[ \t]*\|")
"""The first two cells of a row of a table."""
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_CHARACTERS = 20_000
"""Characters of a prompt that are read."""
_ALL_UNTIL, _EACH = 100, 200
"""So many rows are read one by one, and then one of so many: a share of nine in ten shows in a few hundred rows."""
_FEWEST = 20
"""Smallest number of rows that show a label."""
_SHARE = 0.9
"""Share of the rows in which the answer must stand behind the label, as of other shortcuts (rewards/shortcuts.py)."""


_WORKED_OUT = re.compile(
    r"\b(?:show|write down) (?:your|all|the) (?:work|working|steps|calculation)\b"
    r"|\b(?:work|figure) (?:it |this )?out\b|\bstep[- ]by[- ]step\b"
    r"|\b(?:calculate|compute|add up|sum up|add to the|takes? from|(?:does|do) not count)\b",
    re.IGNORECASE,
)
"""Words of a prompt whose answer is to be worked out and not read."""


@dataclass(slots=True)
class LabelledGolds:
    """Counts the rows in which the first or last entry with a label is the answer. Of many rows, some are read."""

    rows: int = 0
    """The rows that were read."""
    worked_out: int = 0
    """Those whose prompts ask to work the answer out."""
    golds: Counter[str] = field(default_factory=Counter)
    _labels: Counter[tuple[str, str]] = field(default_factory=Counter)
    _offered: int = 0

    def add(self, prompt: str, gold: str) -> None:
        """Count one row. `gold` is its answer."""
        self._offered += 1
        if self._offered > _ALL_UNTIL and self._offered % _EACH:
            return
        self.rows += 1
        self.worked_out += _WORKED_OUT.search(prompt[:_CHARACTERS]) is not None
        gold = _plain(gold)
        self.golds[gold] += 1
        first: dict[str, str] = {}
        last: dict[str, str] = {}
        for label, value in _entries(prompt[:_CHARACTERS]):
            first.setdefault(label, value)
            last[label] = value
        for which, entries in (("first", first), ("last", last)):
            self._labels.update((which, label) for label, value in entries.items() if _is_gold(value, gold))

    def best(self) -> tuple[str, float] | None:
        """Return the label behind which most answers stand, and their share; None if they are not nearly all.

        None as well if most answers are equal, because a constant is no shortcut worth naming.
        """
        ((_, label), times), *_ = self._labels.most_common(1) or [(("", ""), 0)]
        if self.rows < _FEWEST or times < _SHARE * self.rows or max(self.golds.values()) > self.rows / 2:
            return None
        return label, times / self.rows


_MARKS = ((_ENTRY, re.compile("[:=]")), (_ELEMENT, re.compile("</")), (_CELL, re.compile(r"\|")))
"""The patterns, each with a mark without which a text has no such entry: most prompts of most datasets have none."""


def _entries(prompt: str) -> Iterator[tuple[str, str]]:
    for pattern, mark in _MARKS:
        if mark.search(prompt):
            yield from ((label.strip(), value) for label, value in pattern.findall(prompt))


def _is_gold(value: str, gold: str) -> bool:
    """Whether the answer is the number with which an entry begins, or the whole entry."""
    number = _NUMBER.match(value)
    return (number is not None and _plain(number[0]) == gold) or _plain(value.split(", ")[0]) == gold


def _plain(text: str) -> str:
    """Return a number without separators and trailing zeros, and any other text in lower case."""
    text = text.strip(" \t,.*`").casefold()
    if _NUMBER.fullmatch(text) is None:
        return text
    whole, _, fraction = text.replace(",", "").partition(".")
    return f"{whole}.{fraction}".rstrip("0").rstrip(".") if fraction else whole
