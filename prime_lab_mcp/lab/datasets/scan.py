"""Scans a split in one pass: counts, fingerprints and digests all rows, and stores a uniform sample of limited size.

Rows arrive one by one (text files) or as columns (Parquet, Arrow, the Hub). The scan processes columns of a few
hundred rows at a time, which is several times as fast as row by row.

This module and all modules that check rows use only the standard library. The toolchain's interpreter runs them too,
and it does not have the server's packages.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

from prime_lab_mcp.lab.datasets.digests import SplitDigests
from prime_lab_mcp.lab.datasets.row_values import (
    LONGEST_WHOLE,
    PLAIN_KINDS,
    as_json_value,
    clipped_value,
    holds_bytes,
    size_of,
)

Origin = Literal["files", "hub", "environment"]


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """The dataset and the splits to read.

    At most `max_rows` rows are sampled and checked; all rows are counted, fingerprinted and compared. With `whole`,
    long texts stay uncut, so that the rows can be copied; only a sample of them is checked.
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
    """The result of scanning one split.

    `rows` are pairs (index, row) in order, `scanned` is the number of all rows, and `broken` the number of records that
    could not be read as rows. `complete` says that all rows were read. If another process has checked the rows and they
    are not needed here, `rows` is empty and `judged_count` is their number.
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
        """The number of rows that were checked: all rows, or the size of a seeded sample."""
        return len(self.rows) if self.judged_count is None else self.judged_count


@dataclass(frozen=True, slots=True)
class ScannedDataset:
    """A scanned dataset: the main split, and the held-out split if there is one.

    `revision` is the commit on the Hub; None for files. `splits` are the names of all splits with their numbers of
    rows, None if unknown.
    """

    id: str
    origin: Origin
    config: str | None
    revision: str | None
    splits: tuple[tuple[str, int | None], ...]
    main: ScannedSplit
    held_out: ScannedSplit | None
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    binary: tuple[str, ...] = ()
    """The columns with binary data, such as images or sound."""


CHUNK = 256
"""Most rows that are processed at a time. Such a chunk and its texts fit into the cache of most processors."""
CHUNK_BYTES = 16 * 1024 * 1024
SAMPLED_ROWS = 64 * 1024 * 1024
"""Most characters of all sampled rows together, if the rows are only checked."""
SAMPLED_WHOLE_ROWS = 256 * 1024 * 1024
"""Most characters of all sampled rows together, if the rows are copied."""
_HASHED_BYTES = 2 * 1024 * 1024
"""Bytes of texts that are hashed at a time."""
_BROKEN_LISTED = 5
_COLUMNS = 2000
"""Most columns that are scanned. A table with more columns does not contain tasks."""
_SCALARS = frozenset({str, int, float, bool, type(None)})
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

ScanProgress = Callable[[str, int], None]
"""Called with the split and the number of rows read so far. It may raise an exception to end the scan."""


def no_progress(split: str, rows: int) -> None:
    """Ignore progress."""


class SplitScan:
    """The scan of one split. It stores a uniform sample of at most `keep` rows (reservoir sampling with a seed).

    The sample also has a row with each value of the columns with few values, so that no class is missing. With `whole`,
    long texts stay uncut.
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
        self._fingerprint = _Fingerprint()
        self._buffer: list[dict[str, Any]] = []
        self._size = 0
        self._broken = 0
        self._problems: list[dict[str, Any]] = []

    def take(self, row: dict[str, Any], size: int) -> None:
        """Add the next row, of about `size` bytes."""
        self._buffer.append(row)
        self._size += size
        if len(self._buffer) >= CHUNK or self._size >= CHUNK_BYTES:
            self._flush()

    def take_all(self, rows: list[dict[str, Any]], size: int) -> None:
        """Add the next rows, of about `size` bytes together."""
        if self._size + size > CHUNK_BYTES:
            self._flush()
        place = 0
        while place < len(rows):
            end = place + CHUNK - len(self._buffer)
            self._buffer += rows[place:end]
            place = end
            if len(self._buffer) >= CHUNK:
                self._flush()
        self._size += size

    def take_columns(self, columns: Mapping[str, list[Any]], rows: int) -> None:
        """Add the next rows, given as columns."""
        self._flush()
        self.binary.update(n for n, values in columns.items() if n not in self.binary and holds_bytes(values))
        chunk = {str(name): ColumnTexts(values) for name, values in columns.items()}
        self._add_chunk(chunk, rows, lambda place: {name: column.values[place] for name, column in chunk.items()})

    def add_broken(self, where: int, what: str) -> None:
        """Count a record that cannot be read as a row. `where` is its line or position, counted from 1."""
        self._broken += 1
        if len(self._problems) < _BROKEN_LISTED:
            self._problems.append({"line": where, "what": what})

    def result(self) -> ScannedSplit:
        """End the scan and return its result. Do not add rows afterwards."""
        self._flush()
        return ScannedSplit(
            name=self.name,
            rows=self._sample.rows(),
            scanned=self.rows,
            complete=self.complete,
            fingerprint=self._fingerprint.hexdigest(self.rows),
            broken=self._broken,
            problems=tuple(self._problems),
        )

    def _flush(self) -> None:
        if not self._buffer:
            return
        rows, self._buffer, self._size = self._buffer, [], 0
        names = list(rows[0])
        try:
            alike = set(map(len, rows)) == {len(names)}
            found = {name: list(map(itemgetter(name), rows)) for name in names[:_COLUMNS]} if alike else {}
        except KeyError:
            alike = False
        if not alike or len(names) > _COLUMNS:
            names = list(dict.fromkeys(chain.from_iterable(rows)))
            found = {name: [row.get(name) for row in rows] for name in names[:_COLUMNS]}
        chunk = {name: ColumnTexts(values) for name, values in found.items()}
        if len(names) <= _COLUMNS and all(chunk[name].values is found[name] for name in names):
            self._add_chunk(chunk, len(rows), rows.__getitem__)  # The rows are what the columns hold.
        else:
            self._add_chunk(
                chunk, len(rows), lambda place: {n: chunk[n].values[place] for n in rows[place] if n in chunk}
            )

    def _add_chunk(self, chunk: dict[str, ColumnTexts], rows: int, row: Callable[[int], dict[str, Any]]) -> None:
        self._fingerprint.add(chunk, self.rows, rows)
        fresh = self.digests.add(chunk, self.rows, rows)

        scalar = all(column.kinds <= _SCALARS for column in chunk.values())
        whole = self._whole or (scalar and all(max(column.sizes) <= LONGEST_WHOLE for column in chunk.values()))

        def sampled_row(place: int) -> dict[str, Any]:
            values = row(place)
            return values if whole else {k: clipped_value(v) for k, v in values.items()}

        longest = 2 + sum(max(column.sizes) + len(name) + 14 for name, column in chunk.items()) if scalar else None
        self._sample.add(self.rows, rows, sampled_row, fresh, longest)
        self.rows += rows
        self._report_progress(self.name, self.rows)


class ColumnTexts:
    """The values of one column in one chunk: as JSON values, as texts with their sizes, and as one joined text.

    `raw` is the joined text in UTF-8.
    Searching and hashing one joined text is faster than many short texts.
    """

    __slots__ = ("joined", "kinds", "raw", "sizes", "texts", "values")

    def __init__(self, values: list[Any]) -> None:
        self.kinds: set[type] = {str}
        try:
            self.joined = "\0".join(values)  # Looks at each type on the way.
            self.texts = values
        except TypeError:
            self.kinds = set(map(type, values))
            if not self.kinds <= PLAIN_KINDS:
                values = list(map(as_json_value, values))
                self.kinds = set(map(type, values))
            self.texts = [v if type(v) is str else "" if v is None else _encode(v) for v in values]
            self.joined = "\0".join(self.texts)
        self.values = values
        """The given list if no value needed a conversion."""
        self.raw = self.joined.encode("utf-8", "surrogatepass")
        self.sizes = list(map(len, self.texts))

    def lengths(self) -> bytes:
        """Return the lengths of the texts. Different texts can be equal when joined, but then their lengths differ."""
        return array("Q", self.sizes).tobytes()

    def kind_codes(self) -> bytes:
        """Return one byte for each value: 0 for null, 1 for text, and 2 for values that are written as JSON."""
        if self.kinds == {str}:
            return b"\1" * len(self.texts)
        return bytes([0 if v is None else 1 if type(v) is str else 2 for v in self.values])


class _Fingerprint:
    """A fingerprint of the rows. The same rows have the same fingerprint in JSONL, JSON and Parquet.

    Each column has three hashes: of its texts, of their lengths and of the kinds of its values. A missing value counts
    as null. The fingerprint does not depend on the size of chunks.

    A thread hashes, because hashing needs no lock of the interpreter. Small datasets need no thread. Most processors
    have instructions for SHA-256, which make it several times as fast as BLAKE2.
    """

    def __init__(self) -> None:
        self._columns: dict[str, tuple[_PendingHash, _PendingHash, _PendingHash]] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._hashing: Future[None] | None = None
        self._pending = 0

    def add(self, chunk: Mapping[str, ColumnTexts], before: int, rows: int) -> None:
        for name in chunk.keys() - self._columns.keys():
            self._columns[name] = (_PendingHash(), _PendingHash(), _PendingHash())
            self._skip(name, before)
        for name, (texts, lengths, kind_codes) in self._columns.items():
            column = chunk.get(name)
            if column is None:
                self._skip(name, rows)
                continue
            texts.pending += (column.raw, b"\0")
            lengths.pending.append(column.lengths())
            kind_codes.pending.append(column.kind_codes())
            self._pending += len(column.raw)
        if self._pending >= _HASHED_BYTES:
            self._hash_pending()

    def _hash_pending(self) -> None:
        """Let the thread hash the pending bytes. At most one such task exists, so that memory is limited."""
        if self._hashing is not None:
            self._hashing.result()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "fingerprint")
        self._hashing = self._thread.submit(_update_hashes, self._taken())

    def _taken(self) -> list[tuple[Any, list[bytes]]]:
        self._pending = 0
        return [pending.taken() for hashes in self._columns.values() for pending in hashes]

    def _skip(self, name: str, rows: int) -> None:
        texts, lengths, kind_codes = self._columns[name]
        while rows > 0:
            some = min(rows, 100_000)
            texts.pending.append(bytes(some))
            lengths.pending.append(bytes(8 * some))
            kind_codes.pending.append(bytes(some))
            self._pending += 10 * some
            if self._pending >= _HASHED_BYTES:
                self._hash_pending()
            rows -= some

    def hexdigest(self, rows: int) -> str:
        if self._thread is not None and self._hashing is not None:
            self._hashing.result()
            self._thread.shutdown()
        _update_hashes(self._taken())
        combined = sha256(rows.to_bytes(8, "big"))
        for name, hashes in sorted(self._columns.items()):
            raw = name.encode("utf-8", "surrogatepass")
            combined.update(len(raw).to_bytes(8, "big") + raw + b"".join(h.hash.digest() for h in hashes))
        return combined.hexdigest()


class _PendingHash:
    """A hash, and bytes that it still has to process."""

    __slots__ = ("hash", "pending")

    def __init__(self) -> None:
        self.hash: Any = sha256()
        self.pending: list[bytes] = []

    def taken(self) -> tuple[Any, list[bytes]]:
        taken, self.pending = self.pending, []
        return self.hash, taken


def _update_hashes(updates: list[tuple[Any, list[bytes]]]) -> None:
    for hash, pieces in updates:
        hash.update(b"".join(pieces))


class _Sample:
    """A uniform sample of at most `keep` rows and `most` characters, with additional rows that have rare values.

    The size of a row is measured only if the sample may be too large: `_bound` is at least the size of all its rows.
    """

    def __init__(self, keep: int, seed: int, most: int) -> None:
        self._keep = keep
        self._most = most
        self._rows: list[tuple[int, dict[str, Any], int | None]] = []
        self._rare: dict[int, dict[str, Any]] = {}
        self._bound = 0
        self._measured = True
        self._chance = random.Random(seed)

    def add(
        self, before: int, rows: int, row: Callable[[int], dict[str, Any]], fresh: list[int], longest: int | None = None
    ) -> None:
        """Offer the next rows, of which `before` were offered earlier. None has more than `longest` characters."""
        for place in fresh:
            self._rare[before + place] = row(place)
        if longest is not None and self._has_room(rows * longest):
            self._add_all(before, rows, row, longest)
            return
        self._measure()
        draw = self._chance.random
        keep = self._keep
        for index in range(before, before + rows):
            if index < keep:
                self._add(index, row(index - before), None)
            elif (number := draw() * (index + 1)) < keep:
                self._add(index, row(index - before), int(number))
            else:
                continue
            keep = self._keep

    def _has_room(self, size: int) -> bool:
        if self._bound + size > self._most:
            self._measure()
        return self._bound + size <= self._most

    def _measure(self) -> None:
        if self._measured:
            return
        self._measured = True
        self._rows = [(n, row, size_of(row) if size is None else size) for n, row, size in self._rows]
        self._bound = sum(size or 0 for _, _, size in self._rows)

    def _add_all(self, before: int, rows: int, row: Callable[[int], dict[str, Any]], longest: int) -> None:
        """Offer rows for all of which the sample has room, so that all numbers can be drawn at once."""
        self._measured = False
        keep, draw = self._keep, self._chance.random
        for index in range(before, min(keep, before + rows)):
            self._put(index, row(index - before), None, None)
            self._bound += longest
        later = range(max(before, keep), before + rows)
        for index, number in [(n, number) for n in later if (number := draw() * (n + 1)) < keep]:
            self._put(index, row(index - before), None, int(number))
            self._bound += longest

    def _put(self, index: int, row: dict[str, Any], size: int | None, instead: int | None) -> int:
        """Add a row, also in the place of another one. Return the size of the row that was there."""
        if instead is None or instead >= len(self._rows):
            self._rows.append((index, row, size))
            return 0
        replaced = self._rows[instead][2]
        self._rows[instead] = (index, row, size)
        return replaced or 0

    def _add(self, index: int, row: dict[str, Any], instead: int | None) -> None:
        """Add a measured row to measured rows, of which half are left out as long as the sample is too large."""
        size = size_of(row)
        self._bound += size - self._put(index, row, size, instead)
        while self._bound > self._most and len(self._rows) > 1:
            # A random half of a uniform sample is uniform too. Later rows enter with the chance of the smaller sample.
            self._chance.shuffle(self._rows)
            self._keep = len(self._rows) // 2
            del self._rows[self._keep :]
            self._bound = sum(entry[2] or 0 for entry in self._rows)

    def rows(self) -> tuple[tuple[int, dict[str, Any]], ...]:
        rows = {index: row for index, row, _ in self._rows}
        rare = sorted(self._rare.keys() - rows.keys())
        rare = self._chance.sample(rare, min(len(rare), self._keep // 4))
        excess = len(rows) + len(rare) - self._keep
        for index in self._chance.sample(sorted(rows.keys() - self._rare.keys()), max(0, excess))[: len(rows)]:
            del rows[index]
        return tuple(sorted((rows | {index: self._rare[index] for index in rare}).items()))
