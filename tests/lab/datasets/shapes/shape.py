"""A dataset in the exact shape of a well-known one (columns, types, nesting, features), and what must be said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.datasets.inspection import Inspection, inspect_table
from prime_lab_mcp.lab.datasets.scan import DatasetRequest, ScannedDataset, ScannedSplit

Row = dict[str, Any]
ROWS = 96


@dataclass(frozen=True)
class Shape:
    """`row` makes the n-th row, with made-up content. `path` None: there is no answer to be found."""

    name: str
    row: Callable[[int], Row]
    prompt: tuple[str, ...] | None
    path: str | None
    format: str | None
    index_base: int | None = None
    labels: tuple[str, ...] = ()
    any_of: bool | None = None
    options: tuple[str, ...] = ()
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    codes: frozenset[str] = frozenset()
    """Codes of findings that must be there."""
    rows: int = ROWS


def table(shape: Shape) -> ScannedDataset:
    """The shape as the reading of a dataset hands it over."""
    rows = tuple((n, shape.row(n)) for n in range(shape.rows))
    main = ScannedSplit("train", rows, len(rows), True, "0" * 64)
    return ScannedDataset(shape.name, "files", None, None, (("train", len(rows)),), main, None, shape.features)


def inspected(shape: Shape, **named: str) -> Inspection:
    return inspect_table(table(shape), DatasetRequest(shape.name), **named)  # type: ignore[arg-type]


def told(found: Inspection) -> dict[str, Any]:
    """What an inspection says, in the terms of a shape."""
    answer = found.answer
    choice = answer is not None and answer.recognised.format in ("choice_letter", "choice_index")
    return {
        "prompt": found.prompt.columns if found.prompt else None,
        "path": answer.path if answer else None,
        "format": ("mixed " if answer.recognised.mixed else "") + answer.recognised.format if answer else None,
        "index_base": found.index_base,
        "labels": found.labels,
        "any_of": found.any_of,
        "options": found.option_columns if choice else (),
    }


def expected(shape: Shape) -> dict[str, Any]:
    return {
        "prompt": shape.prompt,
        "path": shape.path,
        "format": shape.format,
        "index_base": shape.index_base,
        "labels": shape.labels,
        "any_of": shape.any_of,
        "options": shape.options,
    }


def class_label(*names: str) -> dict[str, Any]:
    """What the Hub tells of a ClassLabel column."""
    return {"dtype": "class_label", "names": list(names)}


def pick(n: int, *values: Any) -> Any:
    """One of the values, in an order without a short period."""
    return values[(n * 7 + n // 5) % len(values)]
