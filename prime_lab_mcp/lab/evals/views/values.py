"""The values of one field, coded into numbers; many different numbers become bins of equal size."""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.evals.views.fields import MISSING
from prime_lab_mcp.lab.text import quote

FEW_NUMBERS = 8
"""Up to this many different numbers each is a group of its own."""
BINS = 4
MOST = 500
"""Different texts kept apart; further ones are one group."""
NONE, OTHER = "(none)", "(others)"
_LONG = 80


@dataclass(slots=True)
class Values:
    """One entry per `add`, in `codes` and, while every value is a number, in `numbers`."""

    codes: array[int] = field(default_factory=lambda: array("I"))
    numbers: array[float] = field(default_factory=lambda: array("d"))
    numeric: bool = True
    overflowed: bool = False
    _known: dict[Any, int] = field(default_factory=dict)
    _labels: list[str] = field(default_factory=list)

    def add(self, value: Any) -> None:
        truth = isinstance(value, bool) or not isinstance(value, int | float)
        if value is not MISSING and (truth or not math.isfinite(value)):
            self.numeric = False
        key = value if isinstance(value, bool | int | float | str) or value is MISSING else repr(value)[:_LONG]
        if isinstance(key, str):
            key = key[:_LONG]
        # True and 1 are the same key of a dictionary, and different values of a field.
        self.codes.append(self._code((type(key) is bool, key)))
        if self.numeric:
            self.numbers.append(math.nan if value is MISSING else float(value))

    @property
    def distinct(self) -> int:
        """Different values, at most MOST + 1."""
        return len(self._known) - ((False, MISSING) in self._known) + self.overflowed

    def groups(self) -> tuple[Sequence[int], list[str]]:
        """(a code for every entry, the label of every code). Labels are quoted where they are foreign text."""
        if self.numeric and self.distinct > FEW_NUMBERS:
            return self._binned()
        return self.codes, [*self._labels, *([OTHER] if self.overflowed else [])]

    def _code(self, key: tuple[bool, Any]) -> int:
        code = self._known.get(key)
        if code is not None:
            return code
        if len(self._known) >= MOST:
            self.overflowed = True
            return MOST
        self._known[key] = len(self._labels)
        self._labels.append(_label(key[1]))
        return len(self._labels) - 1

    def _binned(self) -> tuple[Sequence[int], list[str]]:
        told = sorted(n for n in self.numbers if not math.isnan(n))
        edges = sorted({told[len(told) * i // BINS] for i in range(1, BINS)} - {told[0]})
        codes = array("I", (len(edges) + 1 if math.isnan(n) else bisect.bisect_right(edges, n) for n in self.numbers))
        labels = []
        for low, high in zip([told[0], *edges], [*edges, math.inf], strict=True):
            inside = told[bisect.bisect_left(told, low) : bisect.bisect_left(told, high)]
            labels.append(f"{low:g}" if inside[0] == inside[-1] else f"{inside[0]:g} to {inside[-1]:g}")
        return codes, [*labels, NONE]


def _label(value: Any) -> str:
    if value is MISSING:
        return NONE
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, int | float) else quote(value, _LONG)
