"""What is asked of a dataset and what one pass over it brought, as values.

Standard library only, like everything that judges rows (formats, columns, findings, inspection): the toolchain's
interpreter runs these modules too, and it has none of the server's packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Origin = Literal["files", "hub", "environment"]


@dataclass(frozen=True, slots=True)
class Request:
    """What to read. `max_rows` are kept and judged; all are counted, fingerprinted and compared with each other.

    `whole` keeps long texts uncut, for copying rows; of the rows kept only a sample is judged then.
    """

    dataset: str
    config: str | None = None
    split: str | None = None
    eval_split: str | None = None
    revision: str | None = None
    max_rows: int = 20_000
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Scanned:
    """One split. `rows` are (index, row), in order; `broken` records are no rows.

    Where the rows were judged by another process and nobody copies them, `rows` is empty and `counted` says how many
    were judged.
    """

    name: str
    rows: tuple[tuple[int, Mapping[str, Any]], ...]
    scanned: int
    complete: bool
    fingerprint: str
    broken: int = 0
    problems: tuple[Mapping[str, Any], ...] = ()
    counted: int | None = None

    @property
    def judged(self) -> int:
        """Rows that were judged: all, or a seeded sample of them."""
        return len(self.rows) if self.counted is None else self.counted


@dataclass(frozen=True, slots=True)
class Table:
    """A dataset as scanned. `revision` is the commit on the Hub, None for files."""

    id: str
    origin: Origin
    config: str | None
    revision: str | None
    splits: tuple[tuple[str, int | None], ...]
    main: Scanned
    held: Scanned | None
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    binary: tuple[str, ...] = ()
    """Columns that hold binary data: images, sound."""
