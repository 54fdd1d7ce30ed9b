"""Scans and checks local files.

A thread of the server scans small text files. `dataset_program` scans all other files in the toolchain's interpreter,
which has pyarrow. pyarrow reads the columns of Parquet and Arrow files in batches.
"""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets import text_files
from prime_lab_mcp.lab.datasets.digests import SplitDigests, count_repeats, row_gold_keys, row_task_keys
from prime_lab_mcp.lab.datasets.inspection import Inspection, RepeatsOf, inspect_table
from prime_lab_mcp.lab.datasets.row_values import compose_prompt
from prime_lab_mcp.lab.datasets.scan import (
    DatasetRequest,
    Origin,
    ScannedDataset,
    ScannedSplit,
    ScanProgress,
    SplitScan,
    no_progress,
)
from prime_lab_mcp.lab.datasets.tasks import RepeatCounts

BATCH_ROWS = 1024
_BATCH_BYTES = 16 * 1024 * 1024
_AHEAD_BYTES = 2 * 1024 * 1024
"""Bytes of batches after which no further batch is decoded ahead."""
_MEDIA = ("Image", "Audio", "Video", "Pdf")


class ColumnSink(Protocol):
    """A consumer of rows that are given as columns."""

    def take_columns(self, columns: Mapping[str, list[Any]], rows: int) -> None: ...


def read_table(path: Path, sink: ColumnSink, features: dict[str, Any]) -> int | None:
    """Read all rows of a file into `sink`, and add dtypes and class names to `features`. Raises BadInput."""
    with _readable(path):
        schema, batches = _opened(path)
        refuse_repeated(schema.names, path.name)
        note_features(schema, features)
        for batch in _read_ahead(batches):
            feed_sink(batch, sink)
    return None


def _read_ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the batches. A thread decodes the next ones meanwhile, because pyarrow needs no lock of the interpreter."""

    def some() -> list[Any]:
        group: list[Any] = []
        size = 0
        for batch in batches:
            group.append(batch)
            size += batch.nbytes
            if size >= _AHEAD_BYTES:
                break
        return group

    with ThreadPoolExecutor(1, "decoding") as thread:
        ahead = thread.submit(some)
        while group := ahead.result():
            ahead = thread.submit(some)
            yield from group


def row_count(path: Path) -> int | None:
    """Return the number of rows in the metadata of a Parquet file; None for other files."""
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
        # Without pre-buffering and with a small buffer, pyarrow decodes a row group of gigabytes page by page.
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
    """Pass a record batch or table to the sink in small pieces, because Python objects need more memory than Arrow."""
    rows = batch.num_rows
    step = max(1, min(BATCH_ROWS, int(_BATCH_BYTES * rows / max(1, batch.nbytes)))) if rows else BATCH_ROWS
    for start in range(0, rows, step):
        piece = batch.slice(start, step)
        sink.take_columns(
            {name: _column_values(column) for name, column in zip(piece.schema.names, piece.columns, strict=True)},
            piece.num_rows,
        )


def _column_values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # A time with nanoseconds, or outside the years that Python supports.
        pa: Any = importlib.import_module("pyarrow")
        try:
            values = column.cast(pa.string()).to_pylist()
        except pa.ArrowException:
            values = [str(value) for value in column]
    return values


def refuse_repeated(names: list[str], file: str) -> None:
    """Raise BadInput if two columns have the same name."""
    repeated = next((n for n in names if names.count(n) > 1), None)
    if repeated is not None:
        raise BadInput(
            f"{quote(file, 80)} has two columns named {quote(repeated, 80)}",
            fix="Give each column one name.",
            code="duplicate-columns",
        )


def note_features(schema: Any, features: dict[str, Any]) -> None:
    """Record the dtype of each column, and what `datasets` stores in the schema: class names, images and sound."""
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


JUDGED_ROWS = 20_000
"""Most rows that are checked if the request is for copying all rows."""
SEED = 7
"""The seed of all samples."""


@dataclass(frozen=True, slots=True)
class ScanWork:
    """A dataset to scan and check. `main` and `held_out` are names of splits; given columns override the guesses."""

    request: DatasetRequest
    main: str
    held_out: str | None
    prompt_column: str | None = None
    answer_column: str | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        return (self.main, self.held_out) if self.held_out else (self.main,)

    @property
    def requested_columns(self) -> tuple[str, ...]:
        """The columns that the caller named. `prompt_column` may be several names, separated by commas."""
        prompt = (self.prompt_column, *(self.prompt_column or "").split(","))
        return tuple(c.strip() for c in (*prompt, self.answer_column) if c)

    def scan(self, split: str, report_progress: ScanProgress) -> SplitScan:
        """Return an empty scan of one split."""
        request = self.request
        return SplitScan(
            split,
            request.max_rows,
            SEED,
            whole=request.whole,
            requested_columns=self.requested_columns,
            report_progress=report_progress,
        )


def scan_files(
    work: ScanWork,
    splits: Mapping[str, Sequence[Path]],
    config: str | None = None,
    *,
    most: int | None = None,
    report_progress: ScanProgress = no_progress,
) -> Inspection:
    """Scan the requested splits of local files and check their rows.

    Raises LabError, and TooManyBytes for a file with more than `most` bytes.
    """
    features: dict[str, Any] = {}
    scans: dict[str, SplitScan] = {}
    for split in work.splits:
        scan = scans[split] = work.scan(split, report_progress)
        for file in splits[split]:
            try:
                if text_files.format_of(file.name) in text_files.TABLES:
                    read_table(file, scan, features)
                else:
                    text_files.read_text(file, split, scan, most)
            except OSError as error:
                raise BadInput(
                    f"{quote(file.name, 80)} cannot be read: {error.strerror or quote(str(error), 120)}",
                    fix="Make the file readable.",
                    code="file-unreadable",
                ) from None
    rows = tuple((s, scans[s].rows if s in scans else _stated_rows(files)) for s, files in splits.items())
    return judge_scans(work, scans, "files", rows, features, config=config)


def _stated_rows(files: Sequence[Path]) -> int | None:
    """Return the number of rows of a split that is not scanned, if all its files are Parquet; otherwise None."""
    if not all(f.suffix == ".parquet" for f in files):
        return None
    return sum(row_count(f) or 0 for f in files)


def judge_scans(
    work: ScanWork,
    scans: Mapping[str, SplitScan],
    origin: Origin,
    splits: tuple[tuple[str, int | None], ...],
    features: Mapping[str, Any],
    *,
    config: str | None = None,
    revision: str | None = None,
) -> Inspection:
    """Check the sampled rows, and count repetitions among all scanned rows."""
    results = {name: scan.result() for name, scan in scans.items()}
    names = {c for scanned in results.values() for _, row in scanned.rows[:50] for c in row}
    dataset = ScannedDataset(
        id=work.request.dataset,
        origin=origin,
        config=config,
        revision=revision,
        # `result()` counts the last chunk of a scan, so the number of rows is known only now.
        splits=tuple(
            (name, results[name].scanned if name in results and results[name].complete else n) for name, n in splits
        ),
        main=results[work.main],
        held_out=results[work.held_out] if work.held_out else None,
        features=features,
        binary=tuple(sorted(n for n in names if any(n in scan.binary for scan in scans.values()))),
    )
    most = JUDGED_ROWS if work.request.whole else work.request.max_rows
    table = replace(
        dataset,
        main=_sampled(dataset.main, most),
        held_out=_sampled(dataset.held_out, most) if dataset.held_out else None,
    )
    main, held_out = scans[work.main].digests, scans[work.held_out].digests if work.held_out else None
    inspection = judge_table(work, table, lambda prompt, answer: _repeats(table, main, held_out, prompt, answer))
    if work.request.whole:
        all_rows = replace(dataset.main, judged_count=len(table.main.rows))
        inspection = replace(inspection, table=replace(dataset, main=all_rows))
    return inspection


def judge_table(work: ScanWork, table: ScannedDataset, repeats_of: RepeatsOf | None = None) -> Inspection:
    """Check a table, and add the findings about how it was read."""
    inspection = inspect_table(
        table,
        work.request,
        prompt_column=work.prompt_column,
        answer_column=work.answer_column,
        repeats_of=repeats_of,
    )
    return replace(inspection, findings=(*inspection.findings, *_reading_findings(table, repeats_of is not None)))


def _sampled(scanned: ScannedSplit, most: int) -> ScannedSplit:
    if len(scanned.rows) <= most:
        return scanned
    rows = random.Random(SEED).sample(scanned.rows, most)
    return replace(scanned, rows=tuple(sorted(rows, key=lambda entry: entry[0])))


def _repeats(
    table: ScannedDataset, main: SplitDigests, held_out: SplitDigests | None, prompt: Sequence[str], answer: str | None
) -> RepeatCounts | None:
    """Count repetitions over all rows. None if all rows are checked anyway, or if digests are missing."""
    if table.main.judged == table.main.scanned and (
        table.held_out is None or table.held_out.judged == table.held_out.scanned
    ):
        return None
    keys = row_task_keys(main, prompt)
    if keys is None:
        return None
    held_keys = row_task_keys(held_out, prompt) if held_out is not None else None
    if held_out is not None and held_keys is None:
        return None
    held_golds = None
    if held_out is not None and answer is not None and (answer in main.zero_based) == (answer in held_out.zero_based):
        held_golds = row_gold_keys(held_out, answer)
    return count_repeats(
        keys,
        row_gold_keys(main, answer) if answer is not None else None,
        held_keys,
        held_golds,
        text=_text_of(table.main, prompt),
        held_text=_text_of(table.held_out, prompt),
    )


def _text_of(scanned: ScannedSplit | None, prompt: Sequence[str]) -> Callable[[int], str | None]:
    rows = dict(scanned.rows) if scanned is not None else {}

    def text(index: int) -> str | None:
        row = rows.get(index)
        return None if row is None else compose_prompt(row, list(prompt))

    return text


def _reading_findings(table: ScannedDataset, exact: bool) -> list[Finding]:
    findings: list[Finding] = []
    main = table.main
    if main.judged < main.scanned:
        also = "; duplicates, conflicts and leaks were counted over all rows" if exact else ""
        findings.append(
            Finding(
                "rows-sampled",
                "info",
                f"{main.judged:,} of {count(main.scanned, 'row')} were judged: a seeded sample of all that were "
                f"read, with every class in it{also}.",
                "Nothing to do; raise max_rows to judge more.",
            )
        )
    if table.binary:
        listed = ", ".join(quote(c, 40) for c in table.binary[:5])
        findings.append(
            Finding(
                "binary-column",
                "warning",
                f"{listed} {'hold' if len(table.binary) > 1 else 'holds'} images, sound or other binary data, which no "
                "text prompt shows.",
                "Make sure that the questions can be answered from the text alone, or leave these rows out.",
            )
        )
    return findings
