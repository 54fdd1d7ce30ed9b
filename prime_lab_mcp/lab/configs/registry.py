"""`configs/registry.json`: which config came from which, beside the files it speaks of and meant to be committed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.errors import BadInput

REGISTRY = "configs/registry.json"
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One written version of a config. `active` marks the newest of its name; `sha256` is of the file as written."""

    name: str
    version: int
    path: str
    created: str
    model: str
    target: str
    environments: tuple[str, ...]
    sha256: str
    based_on: str | None = None
    notes: str | None = None
    active: bool = True


def load(path: Path) -> tuple[Entry, ...]:
    """All entries, oldest first; none when there is no registry yet. Raises BadInput when it cannot be read."""
    try:
        raw = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, "it is no readable text file") from error
    try:
        found = json.loads(raw)
    except (json.JSONDecodeError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise _unreadable(path, f"it is not valid JSON{line}") from error
    if not isinstance(found, Mapping) or not isinstance(found.get("configs"), list):
        raise _unreadable(path, 'it is not of the form {"schema": 1, "configs": [...]}')
    if found.get("schema") != _SCHEMA:
        raise _unreadable(path, f"its schema is not {_SCHEMA}")
    return tuple(_entry(path, row) for row in found["configs"])


def add(path: Path, entry: Entry) -> None:
    """Append an entry and make it the active one of its name. An unreadable registry is never overwritten."""
    kept = []
    for old in load(path):
        if (old.name, old.version) == (entry.name, entry.version):
            continue
        values = _values(old)
        kept.append(Entry(**{**values, "active": False}) if old.name == entry.name else old)
    rows = [{k: v for k, v in asdict(e).items() if v is not None} for e in (*kept, entry)]
    replace(path, json.dumps({"schema": _SCHEMA, "configs": rows}, indent=2, ensure_ascii=False) + "\n")


def replace(path: Path, text: str) -> None:
    """Write a file so that readers see the old or the new text, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _values(entry: Entry) -> dict[str, Any]:
    return {f.name: getattr(entry, f.name) for f in fields(entry)}


def _entry(path: Path, row: Any) -> Entry:
    known = {f.name for f in fields(Entry)}
    if not isinstance(row, Mapping) or not isinstance(row.get("environments"), list):
        raise _unreadable(path, "one of its entries is no config")
    try:
        return Entry(**{k: v for k, v in row.items() if k in known and k != "environments"},
                     environments=tuple(map(str, row["environments"])))  # fmt: skip
    except TypeError as error:
        raise _unreadable(path, "one of its entries lacks a field") from error


def _unreadable(path: Path, why: str) -> BadInput:
    return BadInput(
        f"{path.parent.name}/{path.name} cannot be used: {why}",
        fix="Mend it or move it away; it is never overwritten. Then call write_training_config again.",
        code="config-registry-unreadable",
        where=f"{path.parent.name}/{path.name}",
    )
