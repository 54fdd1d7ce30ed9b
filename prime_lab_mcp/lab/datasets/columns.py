"""Columns of scanned rows: what they hold, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.paths import Row, compose, pluck
from prime_lab_mcp.lab.text import quote

__all__ = ["Column", "Row", "Rows", "compose", "describe", "pluck", "spread_rows"]

Rows = Sequence[tuple[int, Row]]
_SHOWN = 80
_SAMPLE = 1000
_MOST = 200


@dataclass(frozen=True, slots=True)
class Column:
    """One column, or one field of a column that holds objects (`answers.text`)."""

    name: str
    dtype: str
    null_rate: float
    distinct: int
    examples: tuple[Any, ...]
    words: float
    """Median number of words where it is text, else 0."""
    classes: tuple[str, ...] | None = None

    @property
    def holds_lists(self) -> bool:
        """By its values, or by what the Hub calls such a feature."""
        return self.dtype.lower().startswith(("list", "sequence", "largelist"))

    def as_json(self) -> dict[str, Any]:
        return {
            "name": quote(self.name, 60)[1:-1],
            "dtype": self.dtype,
            "null_rate": round(self.null_rate, 4),
            "distinct": self.distinct,
            "examples": [quote(golds.as_text(e), _SHOWN) for e in self.examples],
        }


def spread_rows(rows: Rows, most: int) -> Rows:
    """At most so many rows, evenly spread, because the head of a sorted dataset is not like the rest."""
    return rows[:: max(1, -(-len(rows) // most))]


def describe(rows: Rows, features: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """Every column and, one level down, every field of columns that hold objects."""
    return [describe_one(path, rows, features.get(path, {})) for path in _paths(rows)]


def describe_one(path: str, rows: Rows, feature: Mapping[str, Any]) -> Column:
    """One column or nested field, by its path."""
    values = [row[path] if path in row else pluck(row, path) for _, row in rows]
    there = [v for v in values if v is not None and v != ""]
    sample = there[:: max(1, -(-len(there) // _SAMPLE))]
    words = sorted(len(v.split()) for v in sample if isinstance(v, str))
    names = feature.get("names")
    return Column(
        name=path,
        dtype=str(feature.get("dtype") or _dtype(there)),
        null_rate=1 - len(there) / len(values) if values else 0.0,
        distinct=len({v if isinstance(v, str) else repr(v) for v in there}),
        examples=tuple(list(dict.fromkeys(golds.as_text(v) for v in there[:50]))[:2]),
        words=float(words[len(words) // 2]) if len(words) > len(sample) / 2 else 0.0,
        classes=tuple(map(str, names)) if names is not None else None,
    )


def _paths(rows: Rows) -> list[str]:
    found: dict[str, None] = {}
    seen: set[tuple[str, ...]] = set()
    for _, row in rows:
        names = tuple(row)
        if names not in seen:
            seen.add(names)
            found.update(dict.fromkeys(names))
    nested: dict[str, dict[str, None]] = {}
    for _, row in spread_rows(rows, _SAMPLE):
        for name, value in row.items():
            if isinstance(value, Mapping) and len(value) <= 40:
                nested.setdefault(name, {}).update(dict.fromkeys(f"{name}.{field}" for field in value))
    ordered = (path for name in found for path in (name, *nested.get(name, ())))
    return list(dict.fromkeys(ordered))[:_MOST]


def _dtype(values: Sequence[Any]) -> str:
    kinds = set(map(type, values))
    names = {
        "bool" if k is bool else "list" if k is list else "dict" if issubclass(k, Mapping)
        else "string" if k is str else k.__name__
        for k in kinds
    }  # fmt: skip
    if names == {"int", "float"}:
        return "float"
    return names.pop() if len(names) == 1 else "mixed" if names else "null"
