"""The files of a package that go up to the Hub with its code: data, and whatever else it holds."""

from __future__ import annotations

import csv
from pathlib import Path, PurePosixPath

from prime_lab_mcp.lab.base.text import count, plain_id
from prime_lab_mcp.lab.state.snapshot import Snapshot

_CODE = frozenset({".py", ".pyi"})
_ABOUT_THE_PACKAGE = frozenset({"pyproject.toml", "readme", "license", "py.typed", ".gitignore", "uv.lock"})
"""Files at the top of a package that are neither code nor data, in lower case; a README and a licence of any ending."""
_MOST_NAMED = 5
_MOST_BYTES = 50_000_000
"""Rows of larger files are not counted."""


def data_files_sentence(snapshot: Snapshot) -> str:
    """A sentence for the question of a push: which files besides its code are published, the largest first; empty
    without any."""
    sizes = {path: _size(Path(snapshot.tree) / path) for path in snapshot.files if not _is_code(path)}
    if not sizes:
        return ""
    largest = sorted(sizes, key=lambda path: (-sizes[path], path))
    named = [f"{plain_id(path)}{_rows(Path(snapshot.tree) / path)}" for path in largest[:_MOST_NAMED]]
    more = f" and {len(sizes) - _MOST_NAMED} more" if len(sizes) > _MOST_NAMED else ""
    goes = "goes" if len(sizes) == 1 else "go"
    return (
        f" {count(len(sizes), 'file')} of {_size_text(sum(sizes.values()))} {goes} up with the code: "
        f"{', '.join(named)}{more}. Whoever may see the environment can read them."
    )


def _is_code(path: str) -> bool:
    name = PurePosixPath(path)
    top = name.name.lower() if len(name.parts) == 1 else ""
    about = top in _ABOUT_THE_PACKAGE or top.partition(".")[0] in _ABOUT_THE_PACKAGE
    return about or name.suffix.lower() in _CODE or name.name == "py.typed"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _size_text(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{max(1, round(size / 1000)):,} kB"


def _rows(path: Path) -> str:
    """The number of rows in brackets; empty where nobody counted them."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return ""
        if path.suffix.lower() in (".csv", ".tsv"):
            with path.open(encoding="utf-8", errors="replace", newline="") as file:
                rows = max(0, sum(1 for row in csv.reader(file) if row) - 1)
        elif path.suffix.lower() in (".jsonl", ".ndjson"):
            with path.open(encoding="utf-8", errors="replace") as file:
                rows = sum(1 for line in file if line.strip())
        else:
            return ""
    except (OSError, csv.Error):
        return ""
    return f" ({count(rows, 'row')})"
