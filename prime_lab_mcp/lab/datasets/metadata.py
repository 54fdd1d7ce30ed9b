"""Chooses the columns that tasks carry beside question and answer: training and evaluation select by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from prime_lab_mcp.lab.datasets.columns import ANSWER_NAMES
from prime_lab_mcp.lab.datasets.guesses import is_leaky
from prime_lab_mcp.lab.datasets.task_golds import GOLD_NAMES
from prime_lab_mcp.lab.datasets.values import snake_case

_MOST, _LONGEST, _ROWS = 12, 100, 2000
"""Columns to carry, characters of a text, and rows to look at, each at most."""
_GOLDS = frozenset({*ANSWER_NAMES, *GOLD_NAMES})


def metadata_columns(rows: Iterable[tuple[int, Mapping[str, Any]]], taken: Collection[str]) -> tuple[str, ...]:
    """Return columns of short texts, of numbers or of booleans, in the order of the dataset.

    `taken` are the columns of question, answer and options. A column whose name speaks of an answer or of its working
    stays out, because a task must not hold its answer twice. A column has one type, as tables of v0 require.
    """
    kinds: dict[str, set[type]] = {}
    for _, row in islice(rows, _ROWS):
        for name, value in row.items():
            if value is not None:
                kinds.setdefault(name, set()).add(_kind(value))
    return tuple(name for name, of in kinds.items() if name not in taken and _is_metadata(name, of))[:_MOST]


def _is_metadata(name: str, kinds: set[type]) -> bool:
    speaks = name.strip() != "" and snake_case(name) not in _GOLDS and not is_leaky(name)
    return speaks and kinds in ({str}, {float}, {bool})


def _kind(value: Any) -> type:
    """`str` for short texts, `float` for numbers, `bool`; `object` for everything that is no metadata."""
    if isinstance(value, bool):
        return bool
    if isinstance(value, int | float):
        return float
    return str if isinstance(value, str) and len(value) <= _LONGEST else object
