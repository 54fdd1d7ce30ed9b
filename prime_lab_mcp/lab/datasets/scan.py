"""One pass over a split: every row counted, fingerprinted and digested, and a bounded sample of them kept.

Rows come one by one (text files) or by columns (Parquet, Arrow, the Hub) and are looked at by columns, a thousand at a
time, because that is several times as fast. Standard library only.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Callable, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any

from prime_lab_mcp.lab.datasets.digests import Digests
from prime_lab_mcp.lab.datasets.table import Scanned
from prime_lab_mcp.lab.datasets.values import clipped, holds_bytes, plain_column, size_of

CHUNK = 1024
CHUNK_BYTES = 16 * 1024 * 1024
KEPT = 64 * 1024 * 1024
"""Characters of rows kept for judging at most."""
KEPT_WHOLE = 256 * 1024 * 1024
"""The same where rows are to be copied."""
_BROKEN_SHOWN = 5
_COLUMNS = 2000
"""Columns that are looked at: more are no table of tasks."""
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

Say = Callable[[str, int], None]
"""Told the split and how many rows of it were read; may raise to end the pass."""


def silent(split: str, rows: int) -> None:
    """For callers that do not follow progress."""


class Scan:
    """One split. What is kept is a uniform sample, by a seeded reservoir, and of every column with few values one row
    of each value, so that no class is missed. With `whole`, long texts are kept uncut.
    """

    def __init__(
        self, name: str, keep: int, seed: int, *, whole: bool = False, named: tuple[str, ...] = (), say: Say = silent
    ) -> None:
        self.name = name
        self.rows = 0
        self.complete = True
        self.binary: set[str] = set()
        self.digests = Digests(named)
        self._say = say
        self._whole = whole
        self._sample = _Sample(keep, seed, KEPT_WHOLE if whole else KEPT)
        self._print = _Fingerprint()
        self._buffer: list[dict[str, Any]] = []
        self._size = 0
        self._broken = 0
        self._problems: list[dict[str, Any]] = []

    def take(self, row: dict[str, Any], size: int) -> None:
        """One row; `size` is about its bytes."""
        self._buffer.append(row)
        self._size += size
        if len(self._buffer) >= CHUNK or self._size >= CHUNK_BYTES:
            self._flush()

    def take_columns(self, columns: Mapping[str, list[Any]], rows: int) -> None:
        """The next rows, by columns."""
        self._flush()
        found: dict[str, list[Any]] = {}
        for name, values in columns.items():
            if name not in self.binary and holds_bytes(values):
                self.binary.add(name)
            found[str(name)] = plain_column(values)
        self._see(found, rows, lambda place: {name: values[place] for name, values in found.items()})

    def breaks(self, where: int, what: str) -> None:
        """Note a record that is no row. `where` is its line or position, from 1."""
        self._broken += 1
        if len(self._problems) < _BROKEN_SHOWN:
            self._problems.append({"line": where, "what": what})

    def done(self) -> Scanned:
        """The result; nothing may be taken after it."""
        self._flush()
        return Scanned(
            name=self.name,
            rows=self._sample.told(),
            scanned=self.rows,
            complete=self.complete,
            fingerprint=self._print.told(self.rows),
            broken=self._broken,
            problems=tuple(self._problems),
        )

    def _flush(self) -> None:
        if not self._buffer:
            return
        rows, self._buffer, self._size = self._buffer, [], 0
        names = list(dict.fromkeys(chain.from_iterable(rows)))[:_COLUMNS]
        columns = {name: plain_column([row.get(name) for row in rows]) for name in names}
        self._see(columns, len(rows), lambda place: {n: columns[n][place] for n in rows[place] if n in columns})

    def _see(self, columns: dict[str, list[Any]], rows: int, row: Callable[[int], dict[str, Any]]) -> None:
        chunk = {name: Texts(values) for name, values in columns.items()}
        self._print.see(chunk, self.rows, rows)
        fresh = self.digests.see(chunk, self.rows, rows)

        def kept(place: int) -> dict[str, Any]:
            found = row(place)
            return found if self._whole else {k: clipped(v) for k, v in found.items()}

        self._sample.see(self.rows, rows, kept, fresh)
        self.rows += rows
        self._say(self.name, self.rows)


class Texts:
    """Values of one column in one chunk: as they are, as texts, and joined, which makes much of the work one call."""

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
        """Of the texts, so that they can be told apart in the joined one."""
        return array("Q", map(len, self.texts)).tobytes()

    def sorts(self) -> bytes:
        """0 for null, 1 for text, 2 for all that is written as JSON."""
        if self.kinds == {str}:
            return b"\1" * len(self.texts)
        return bytes([0 if v is None else 1 if type(v) is str else 2 for v in self.values])


class _Fingerprint:
    """Of the rows, not of the file: the same for JSONL, JSON and Parquet, and for any size of chunks.

    Per column three hashes: of the texts, their lengths and their kinds. A missing value counts as null.
    """

    def __init__(self) -> None:
        self._columns: dict[str, tuple[Any, Any, Any]] = {}

    def see(self, chunk: Mapping[str, Texts], before: int, rows: int) -> None:
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

    def told(self, rows: int) -> str:
        whole = blake2b(rows.to_bytes(8, "big"), digest_size=32)
        for name, hashes in sorted(self._columns.items()):
            raw = name.encode("utf-8", "surrogatepass")
            whole.update(len(raw).to_bytes(8, "big") + raw + b"".join(h.digest() for h in hashes))
        return whole.hexdigest()


class _Sample:
    """A seeded reservoir of rows, bounded in number and in characters, beside one row of each rare value."""

    def __init__(self, keep: int, seed: int, most: int) -> None:
        self._keep = keep
        self._most = most
        self._rows: list[tuple[int, dict[str, Any], int]] = []
        self._rare: dict[int, dict[str, Any]] = {}
        self._size = 0
        self._chance = random.Random(seed)

    def see(self, before: int, rows: int, row: Callable[[int], dict[str, Any]], fresh: list[int]) -> None:
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

    def told(self) -> tuple[tuple[int, dict[str, Any]], ...]:
        rows = {index: row for index, row, _ in self._rows}
        rare = sorted(self._rare.keys() - rows.keys())
        rare = self._chance.sample(rare, min(len(rare), self._keep // 4))
        spare = len(rows) + len(rare) - self._keep
        for index in self._chance.sample(sorted(rows.keys() - self._rare.keys()), max(0, spare))[: len(rows)]:
            del rows[index]
        return tuple(sorted((rows | {index: self._rare[index] for index in rare}).items()))
