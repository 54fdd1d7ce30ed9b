"""The data files of a package, which go up to the Hub with its code."""

from __future__ import annotations

import csv
from pathlib import Path, PurePosixPath

from prime_lab_mcp.lab.base.text import count, plain_id
from prime_lab_mcp.lab.state.snapshot import Snapshot

_DATA = frozenset({".csv", ".tsv", ".jsonl", ".json", ".parquet", ".arrow", ".txt", ".db", ".sqlite", ".gz", ".zip"})
"""Endings of files that hold data rather than code."""
_MOST_NAMED = 5
_MOST_BYTES = 50_000_000
"""Rows of larger files are not counted."""


def data_files_sentence(snapshot: Snapshot) -> str:
    """A sentence for the question of a push: which data the published files hold; empty without data files."""
    data = sorted(path for path in snapshot.files if PurePosixPath(path).suffix.lower() in _DATA)
    if not data:
        return ""
    named = [f"{plain_id(path)}{_rows(Path(snapshot.tree) / path)}" for path in data[:_MOST_NAMED]]
    more = f" and {len(data) - _MOST_NAMED} more" if len(data) > _MOST_NAMED else ""
    return (
        f" {count(len(data), 'data file')} {'goes' if len(data) == 1 else 'go'} up with the code, because training "
        f"reads them there: {', '.join(named)}{more}. Whoever may see the environment can read them."
    )


def _rows(path: Path) -> str:
    """The number of rows in brackets; empty where nobody counted them."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return ""
        if path.suffix.lower() in (".csv", ".tsv"):
            with path.open(encoding="utf-8", errors="replace", newline="") as file:
                rows = max(0, sum(1 for row in csv.reader(file) if row) - 1)
        elif path.suffix.lower() == ".jsonl":
            with path.open(encoding="utf-8", errors="replace") as file:
                rows = sum(1 for line in file if line.strip())
        else:
            return ""
    except (OSError, csv.Error):
        return ""
    return f" ({count(rows, 'row')})"
