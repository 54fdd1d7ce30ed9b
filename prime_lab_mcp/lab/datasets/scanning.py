"""Files scanned and judged in one go: run in a thread of the server for small text files, else in the toolchain's
interpreter (lab/worker/dataset_program.py). Standard library only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.datasets import arrows, streams, texts
from prime_lab_mcp.lab.datasets.counting import count_repeats, gold_keys, task_keys
from prime_lab_mcp.lab.datasets.digests import Digests
from prime_lab_mcp.lab.datasets.inspection import Inspection, RepeatsOf, judge
from prime_lab_mcp.lab.datasets.paths import compose
from prime_lab_mcp.lab.datasets.plain import Repeats
from prime_lab_mcp.lab.datasets.scan import Say, Scan, silent
from prime_lab_mcp.lab.datasets.table import Origin, Request, Scanned, Table
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

JUDGED = 20_000
"""Rows judged of those kept to be copied."""
SEED = 7


@dataclass(frozen=True, slots=True)
class Work:
    """What to scan and judge. `main` and `held` are splits; the columns overrule the guesses."""

    request: Request
    main: str
    held: str | None
    prompt_column: str | None = None
    answer_column: str | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        return (self.main, self.held) if self.held else (self.main,)

    @property
    def named(self) -> tuple[str, ...]:
        """Every column that the caller named; a prompt may be made of several, with commas between them."""
        prompt = (self.prompt_column, *(self.prompt_column or "").split(","))
        return tuple(c.strip() for c in (*prompt, self.answer_column) if c)

    def scan(self, split: str, say: Say) -> Scan:
        """An empty scan of one split."""
        asked = self.request
        return Scan(split, asked.max_rows, SEED, whole=asked.whole, named=self.named, say=say)


def scan_files(
    work: Work,
    splits: Mapping[str, Sequence[Path]],
    config: str | None = None,
    *,
    most: int | None = None,
    say: Say = silent,
) -> Inspection:
    """Scan the wanted splits of local files and judge them. Raises LabError, and TooMuch beyond `most` bytes a file."""
    features: dict[str, Any] = {}
    scans: dict[str, Scan] = {}
    for split in work.wanted:
        scan = scans[split] = work.scan(split, say)
        for file in splits[split]:
            try:
                if streams.format_of(file.name) in streams.TABLES:
                    arrows.read_table(file, scan, features)
                else:
                    texts.read_text(file, split, scan, most)
            except OSError as error:
                raise BadInput(
                    f"{quote(file.name, 80)} cannot be read: {error.strerror or quote(str(error), 120)}",
                    fix="Make the file readable.",
                    code="file-unreadable",
                ) from None
    rows = tuple((s, scans[s].rows if s in scans else _told(files)) for s, files in splits.items())
    return judge_scans(work, scans, "files", rows, features, config=config)


def _told(files: Sequence[Path]) -> int | None:
    """Rows of a split that is not scanned, where its files say it."""
    if not all(f.suffix == ".parquet" for f in files):
        return None
    return sum(arrows.rows_of(f) or 0 for f in files)


def judge_scans(
    work: Work,
    scans: Mapping[str, Scan],
    origin: Origin,
    splits: tuple[tuple[str, int | None], ...],
    features: Mapping[str, Any],
    *,
    config: str | None = None,
    revision: str | None = None,
) -> Inspection:
    """Judge what was kept, and count repetitions among all rows that were read."""
    done = {name: scan.done() for name, scan in scans.items()}
    names = {c for scanned in done.values() for _, row in scanned.rows[:50] for c in row}
    found = Table(
        id=work.request.dataset,
        origin=origin,
        config=config,
        revision=revision,
        # A last chunk is counted only when a scan is done.
        splits=tuple((name, done[name].scanned if name in done and done[name].complete else n) for name, n in splits),
        main=done[work.main],
        held=done[work.held] if work.held else None,
        features=features,
        binary=tuple(sorted(n for n in names if any(n in scan.binary for scan in scans.values()))),
    )
    most = JUDGED if work.request.whole else work.request.max_rows
    table = replace(found, main=_sampled(found.main, most), held=_sampled(found.held, most) if found.held else None)
    main, held = scans[work.main].digests, scans[work.held].digests if work.held else None
    judged = judge_table(work, table, lambda prompt, answer: _repeats(table, main, held, prompt, answer))
    if work.request.whole:
        whole = replace(found.main, counted=len(table.main.rows))
        judged = replace(judged, table=replace(found, main=whole))
    return judged


def judge_table(work: Work, table: Table, repeats_of: RepeatsOf | None = None) -> Inspection:
    """Judge a table, with the findings that follow from how it was read."""
    found = judge(
        table,
        work.request,
        prompt_column=work.prompt_column,
        answer_column=work.answer_column,
        repeats_of=repeats_of,
    )
    return replace(found, findings=(*found.findings, *_reading_findings(table, repeats_of is not None)))


def _sampled(scanned: Scanned, most: int) -> Scanned:
    if len(scanned.rows) <= most:
        return scanned
    rows = random.Random(SEED).sample(scanned.rows, most)
    return replace(scanned, rows=tuple(sorted(rows, key=lambda entry: entry[0])))


def _repeats(
    table: Table, main: Digests, held: Digests | None, prompt: Sequence[str], answer: str | None
) -> Repeats | None:
    """Exact counts, where the rows judged are only some of those read."""
    if table.main.judged == table.main.scanned and (table.held is None or table.held.judged == table.held.scanned):
        return None
    keys = task_keys(main, prompt)
    if keys is None:
        return None
    held_keys = task_keys(held, prompt) if held is not None else None
    if held is not None and held_keys is None:
        return None
    return count_repeats(
        keys,
        gold_keys(main, answer) if answer is not None else None,
        held_keys,
        text=_text_of(table.main, prompt),
        held_text=_text_of(table.held, prompt),
    )


def _text_of(scanned: Scanned | None, prompt: Sequence[str]) -> Callable[[int], str | None]:
    rows = dict(scanned.rows) if scanned is not None else {}

    def text(index: int) -> str | None:
        row = rows.get(index)
        return None if row is None else compose(row, list(prompt))

    return text


def _reading_findings(table: Table, exact: bool) -> list[Finding]:
    found: list[Finding] = []
    main = table.main
    if main.judged < main.scanned:
        also = "; duplicates, conflicts and leaks were counted over all rows" if exact else ""
        found.append(
            Finding(
                "rows-sampled",
                "info",
                f"{main.judged:,} of {count(main.scanned, 'row')} were judged: a seeded sample of all that were "
                f"read, with every class in it{also}.",
                "Nothing to do; raise max_rows to judge more.",
            )
        )
    if table.binary:
        named = ", ".join(quote(c, 40) for c in table.binary[:5])
        found.append(
            Finding(
                "binary-column",
                "warning",
                f"{named} {'hold' if len(table.binary) > 1 else 'holds'} images, sound or other binary data, which no "
                "text prompt shows.",
                "Make sure that the questions can be answered from the text alone, or leave these rows out.",
            )
        )
    return found
