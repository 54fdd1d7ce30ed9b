"""Scans a split in one pass: counts, fingerprints and digests every row, and keeps a bounded uniform sample.

Rows arrive one by one (text files) or by columns (Parquet, Arrow, the Hub). The scan processes columns of about a
thousand rows, which is several times as fast as row by row.

This module uses the standard library only, as does every module that judges rows: the toolchain's interpreter runs them
too, and it has none of the server's packages.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Any, Literal

from prime_lab_mcp.lab.datasets.digests import SplitDigests
from prime_lab_mcp.lab.datasets.row_values import as_json_column, clipped_value, holds_bytes, size_of

Origin = Literal["files", "hub", "environment"]


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """The dataset and the splits to read.

    At most `max_rows` rows are sampled and judged; all rows are counted, fingerprinted and compared.

    `whole` keeps long texts uncut, so that rows can be copied; only a sample of these rows is judged.
    """

    dataset: str
    config: str | None = None
    split: str | None = None
    eval_split: str | None = None
    revision: str | None = None
    max_rows: int = 20_000
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ScannedSplit:
    """The scan of one split. `rows` are (index, row) in order; `broken` counts records that are no rows.

    Where another process judged the rows and nobody copies them, `rows` is empty and `judged_count` is their number.
    """

    name: str
    rows: tuple[tuple[int, Mapping[str, Any]], ...]
    scanned: int
    complete: bool
    fingerprint: str
    broken: int = 0
    problems: tuple[Mapping[str, Any], ...] = ()
    judged_count: int | None = None

    @property
    def judged(self) -> int:
        """The number of judged rows: all rows, or the size of a seeded sample."""
        return len(self.rows) if self.judged_count is None else self.judged_count


@dataclass(frozen=True, slots=True)
class ScannedDataset:
    """A scanned dataset. `revision` is the commit on the Hub, and None for files."""

    id: str
    origin: Origin
    config: str | None
    revision: str | None
    splits: tuple[tuple[str, int | None], ...]
    main: ScannedSplit
    held_out: ScannedSplit | None
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    binary: tuple[str, ...] = ()
    """Columns that hold binary data: images, sound."""


CHUNK = 1024
CHUNK_BYTES = 16 * 1024 * 1024
SAMPLED_ROWS = 64 * 1024 * 1024
"""Characters of rows that are kept for judging at most."""
SAMPLED_WHOLE_ROWS = 256 * 1024 * 1024
"""Characters of rows that are kept for copying at most."""
_BROKEN_LISTED = 5
_COLUMNS = 2000
"""Columns to scan at most; a table with more is no table of tasks."""
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

ScanProgress = Callable[[str, int], None]
"""Called with the split and the number of rows read so far. May raise to end the pass."""


def no_progress(split: str, rows: int) -> None:
    """Ignore progress."""


class SplitScan:
    """The scan of one split. It keeps a uniform sample of the rows, by a seeded reservoir.

    The sample also has one row for each value of every column with few values, so that no class is missing. With
    `whole`, long texts are kept uncut.
    """

    def __init__(
        self,
        name: str,
        keep: int,
        seed: int,
        *,
        whole: bool = False,
        requested_columns: tuple[str, ...] = (),
        report_progress: ScanProgress = no_progress,
    ) -> None:
        self.name = name
        self.rows = 0
        self.complete = True
        self.binary: set[str] = set()
        self.digests = SplitDigests(requested_columns)
        self._report_progress = report_progress
        self._whole = whole
        self._sample = _Sample(keep, seed, SAMPLED_WHOLE_ROWS if whole else SAMPLED_ROWS)
        self._print = _Fingerprint()
        self._buffer: list[dict[str, Any]] = []
        self._size = 0
        self._broken = 0
        self._problems: list[dict[str, Any]] = []

    def take(self, row: dict[str, Any], size: int) -> None:
        """Add one row of about `size` bytes."""
        self._buffer.append(row)
        self._size += size
        if len(self._buffer) >= CHUNK or self._size >= CHUNK_BYTES:
            self._flush()

    def take_columns(self, columns: Mapping[str, list[Any]], rows: int) -> None:
        """Add the next rows, given as columns."""
        self._flush()
        json_columns: dict[str, list[Any]] = {}
        for name, values in columns.items():
            if name not in self.binary and holds_bytes(values):
                self.binary.add(name)
            json_columns[str(name)] = as_json_column(values)
        self._add_chunk(
            json_columns, rows, lambda place: {name: values[place] for name, values in json_columns.items()}
        )

    def breaks(self, where: int, what: str) -> None:
        """Record a record that is no row. `where` is its line or position, from 1."""
        self._broken += 1
        if len(self._problems) < _BROKEN_LISTED:
            self._problems.append({"line": where, "what": what})

    def result(self) -> ScannedSplit:
        """End the scan and return its result; no rows may be added afterwards."""
        self._flush()
        return ScannedSplit(
            name=self.name,
            rows=self._sample.rows(),
            scanned=self.rows,
            complete=self.complete,
            fingerprint=self._print.hexdigest(self.rows),
            broken=self._broken,
            problems=tuple(self._problems),
        )

    def _flush(self) -> None:
        if not self._buffer:
            return
        rows, self._buffer, self._size = self._buffer, [], 0
        names = list(dict.fromkeys(chain.from_iterable(rows)))[:_COLUMNS]
        columns = {name: as_json_column([row.get(name) for row in rows]) for name in names}
        self._add_chunk(columns, len(rows), lambda place: {n: columns[n][place] for n in rows[place] if n in columns})

    def _add_chunk(self, columns: dict[str, list[Any]], rows: int, row: Callable[[int], dict[str, Any]]) -> None:
        chunk = {name: ColumnTexts(values) for name, values in columns.items()}
        self._print.add(chunk, self.rows, rows)
        fresh = self.digests.add(chunk, self.rows, rows)

        def sampled_row(place: int) -> dict[str, Any]:
            values = row(place)
            return values if self._whole else {k: clipped_value(v) for k, v in values.items()}

        self._sample.add(self.rows, rows, sampled_row, fresh)
        self.rows += rows
        self._report_progress(self.name, self.rows)


class ColumnTexts:
    """Values of one column in one chunk: as they are, as texts, and joined into one text, which saves many calls."""

    __slots__ = ("joined", "kinds", "texts", "values")

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.kinds = set(map(type, values))
        if self.kinds == {str}:
            self.texts = values
        else:
            self.texts = [v if type(v) is str else "" if v is None else _encode(v) for v in values]
        self.joined = "\0".join(self.texts)

    def lengths(self) -> bytes:
        """Return the lengths of the texts, without which different texts could be equal when joined."""
        return array("Q", map(len, self.texts)).tobytes()

    def sorts(self) -> bytes:
        """The kind of each value: 0 for null, 1 for text, 2 for everything that is written as JSON."""
        if self.kinds == {str}:
            return b"\1" * len(self.texts)
        return bytes([0 if v is None else 1 if type(v) is str else 2 for v in self.values])


class _Fingerprint:
    """Fingerprint of the rows, not of the file: equal for JSONL, JSON and Parquet, and for any size of chunks.

    Each column has three hashes: of the texts, of their lengths and of their kinds. A missing value counts as null.
    """

    def __init__(self) -> None:
        self._columns: dict[str, tuple[Any, Any, Any]] = {}

    def add(self, chunk: Mapping[str, ColumnTexts], before: int, rows: int) -> None:
        for name in chunk.keys() - self._columns.keys():
            self._columns[name] = (blake2b(digest_size=32), blake2b(digest_size=32), blake2b(digest_size=32))
            self._skip(name, before)
        for name, (texts, lengths, sorts) in self._columns.items():
            column = chunk.get(name)
            if column is None:
                self._skip(name, rows)
                continue
            texts.update(column.joined.encode("utf-8", "surrogatepass"))
            texts.update(b"\0")
            lengths.update(column.lengths())
            sorts.update(column.sorts())

    def _skip(self, name: str, rows: int) -> None:
        texts, lengths, sorts = self._columns[name]
        while rows > 0:
            some = min(rows, 100_000)
            texts.update(bytes(some))
            lengths.update(bytes(8 * some))
            sorts.update(bytes(some))
            rows -= some

    def hexdigest(self, rows: int) -> str:
        combined = blake2b(rows.to_bytes(8, "big"), digest_size=32)
        for name, hashes in sorted(self._columns.items()):
            raw = name.encode("utf-8", "surrogatepass")
            combined.update(len(raw).to_bytes(8, "big") + raw + b"".join(h.digest() for h in hashes))
        return combined.hexdigest()


class _Sample:
    """A seeded reservoir of rows, bounded in number and in characters, with one row of each rare value."""

    def __init__(self, keep: int, seed: int, most: int) -> None:
        self._keep = keep
        self._most = most
        self._rows: list[tuple[int, dict[str, Any], int]] = []
        self._rare: dict[int, dict[str, Any]] = {}
        self._size = 0
        self._chance = random.Random(seed)

    def add(self, before: int, rows: int, row: Callable[[int], dict[str, Any]], fresh: list[int]) -> None:
        for place in fresh:
            self._rare[before + place] = row(place)
        draw = self._chance.random
        for index in range(before, before + rows):
            if index < self._keep:
                self._add(index, row(index - before), None)
            elif (number := int(draw() * (index + 1))) < self._keep:
                self._add(index, row(index - before), number)

    def _add(self, index: int, row: dict[str, Any], instead: int | None) -> None:
        size = size_of(row)
        if instead is None or instead >= len(self._rows):
            self._rows.append((index, row, size))
        else:
            self._size -= self._rows[instead][2]
            self._rows[instead] = (index, row, size)
        self._size += size
        while self._size > self._most and len(self._rows) > 1:
            # Half of a uniform sample is one too, and what comes later is drawn with the chance that it leaves.
            self._chance.shuffle(self._rows)
            self._keep = len(self._rows) // 2
            del self._rows[self._keep :]
            self._size = sum(entry[2] for entry in self._rows)

    def rows(self) -> tuple[tuple[int, dict[str, Any]], ...]:
        rows = {index: row for index, row, _ in self._rows}
        rare = sorted(self._rare.keys() - rows.keys())
        rare = self._chance.sample(rare, min(len(rare), self._keep // 4))
        excess = len(rows) + len(rare) - self._keep
        for index in self._chance.sample(sorted(rows.keys() - self._rare.keys()), max(0, excess))[: len(rows)]:
            del rows[index]
        return tuple(sorted((rows | {index: self._rare[index] for index in rare}).items()))
