"""Reads the columns of Parquet and Arrow files in batches, in the toolchain's interpreter, which has pyarrow."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote

BATCH_ROWS = 1024
_BATCH_BYTES = 16 * 1024 * 1024
_MEDIA = ("Image", "Audio", "Video", "Pdf")


class ColumnSink(Protocol):
    """A consumer of rows that are given as columns."""

    def take_columns(self, columns: Mapping[str, list[Any]], rows: int) -> None: ...


def read_table(path: Path, sink: ColumnSink, features: dict[str, Any]) -> int | None:
    """Read all rows of one file into `sink`; add dtypes and class names to `features`. Raises BadInput."""
    with _readable(path):
        schema, batches = _opened(path)
        refuse_repeated(schema.names, path.name)
        note_features(schema, features)
        for batch in batches:
            feed_sink(batch, sink)
    return None


def row_count(path: Path) -> int | None:
    """Return the number of rows that a Parquet file states."""
    if path.suffix != ".parquet":
        return None
    with _readable(path):
        return int(importlib.import_module("pyarrow.parquet").read_metadata(path).num_rows)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    pa: Any = importlib.import_module("pyarrow")
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        kind = path.suffix[1:].capitalize()
        raise BadInput(
            f"{quote(path.name, 80)} is no whole {kind} file: {quote(str(error), 120)}",
            fix="Copy, download or write the file again.",
            code="broken-file",
        ) from None


def _opened(path: Path) -> tuple[Any, Iterator[Any]]:
    pa: Any = importlib.import_module("pyarrow")
    if path.suffix == ".parquet":
        # Without pre-buffering and with a small buffer a row group of gigabytes is decoded page by page.
        pq: Any = importlib.import_module("pyarrow.parquet")
        table = pq.ParquetFile(path, memory_map=False, pre_buffer=False, buffer_size=256 * 1024)
        size = _batch_size(table.metadata)
        return table.schema_arrow, table.iter_batches(batch_size=size, use_threads=False)
    source = pa.memory_map(str(path))
    try:
        stream = pa.ipc.open_stream(source)
        return stream.schema, iter(stream)
    except pa.ArrowInvalid:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))


def _batch_size(metadata: Any) -> int:
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    widest = max((g.total_byte_size / max(1, g.num_rows) for g in groups), default=1.0)
    return max(1, min(BATCH_ROWS, int(_BATCH_BYTES / max(1.0, widest))))


def feed_sink(batch: Any, sink: ColumnSink) -> None:
    """Feed a record batch or table to the sink, in pieces that stay small as Python objects."""
    rows = batch.num_rows
    step = max(1, min(BATCH_ROWS, int(_BATCH_BYTES * rows / max(1, batch.nbytes)))) if rows else BATCH_ROWS
    for start in range(0, rows, step):
        piece = batch.slice(start, step)
        sink.take_columns(
            {name: _values(column) for name, column in zip(piece.schema.names, piece.columns, strict=True)},
            piece.num_rows,
        )


def _values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # a time with nanoseconds, or beyond the years Python knows
        pa: Any = importlib.import_module("pyarrow")
        try:
            values = column.cast(pa.string()).to_pylist()
        except pa.ArrowException:
            values = [str(value) for value in column]
    return values


def refuse_repeated(names: list[str], file: str) -> None:
    """Raise BadInput when two columns share a name."""
    repeated = next((n for n in names if names.count(n) > 1), None)
    if repeated is not None:
        raise BadInput(
            f"{quote(file, 80)} has two columns named {quote(repeated, 80)}",
            fix="Give each column one name.",
            code="duplicate-columns",
        )


def note_features(schema: Any, features: dict[str, Any]) -> None:
    """Record dtypes and the schema entries of `datasets`: class names, and which columns are images or sound."""
    for field in schema:
        features.setdefault(field.name, {"dtype": str(field.type)})
    try:
        stored = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return
    for name, feature in stored.items() if isinstance(stored, dict) else ():
        kind = feature.get("_type") if isinstance(feature, dict) else None
        if kind == "ClassLabel":
            features[name] = {"dtype": "class_label", "names": feature.get("names") or []}
        elif kind in _MEDIA:
            features[name] = {"dtype": kind.lower()}
