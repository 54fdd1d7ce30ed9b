"""The registry's file: read whole, written whole, one writer at a time."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.configs.migrate.header import Header
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.configs.registry.entry import Entry, entry_of
from prime_lab_mcp.lab.configs.registry.older import is_older, taken_over
from prime_lab_mcp.lab.errors import BadInput

REGISTRY = "configs/registry.json"
_SCHEMA = 1
_WAIT = 20.0
"""Seconds to wait for another writer, whose turn takes milliseconds."""


def load(path: Path) -> tuple[Entry, ...]:
    """All entries, oldest first; none when there is no registry yet. Raises BadInput when it cannot be read."""
    return _read(path)[0]


def add(path: Path, entry: Entry) -> None:
    """Append an entry and make it the active one of its name. An unreadable registry is never overwritten."""
    with locked(path) as held:
        held.add(entry)


@dataclass(frozen=True, slots=True)
class Held:
    """The registry while no other process may write it, nor choose the name of a config."""

    path: Path

    def add(self, entry: Entry) -> None:
        """An active entry takes that place from the earlier ones of its name."""
        entries, rest = _read(self.path)
        same = (entry.name, entry.version, entry.path)
        kept = [
            changed(old, active=False) if entry.active and old.name == entry.name else old
            for old in entries
            if (old.name, old.version, old.path) != same
        ]
        rows = [e.as_json() for e in (*kept, entry)]
        text = json.dumps({"schema": _SCHEMA, "configs": rows, **rest}, indent=2, ensure_ascii=False)
        replace(self.path, text + "\n")

    def add_older(self, config: Config, path: str, header: Header, environments: tuple[str, ...]) -> None:
        """Enter a file that kept its lineage in a header of its own, unless it is known.

        `environments`: its taskset ids; the header's one version is that of all of them.
        """
        if any(entry.path == path for entry in load(self.path)):
            return
        named = [id.partition("@")[0] for id in environments]
        self.add(
            Entry(
                name=config.path.stem,
                version=header.number or 1,
                path=path,
                created=header.created or "",
                model=config.model,
                target=config.target,
                environments=tuple(named),
                sha256=config.sha256,
                based_on=header.based_on,
                notes=header.notes,
                active=False,
                environment_versions={name: header.env_version for name in named if header.env_version},
                label=None if header.version == f"v{header.number}" else header.version,
            )
        )

    def taken(self, name: str, version: int, path: str) -> bool:
        """Whether a version of this name is the one of another file already."""
        return any((e.name, e.version) == (name, version) and e.path != path for e in load(self.path))


@contextmanager
def locked(path: Path) -> Iterator[Held]:
    """Hold the registry of a workspace. Not to be entered twice by one caller.

    The lock is on the workspace's own folder: the file itself is replaced, and nothing is to be left behind.
    Raises BadInput when another process holds it for too long.
    """
    folder = os.open(path.parent.parent, os.O_RDONLY)
    try:
        _lock(folder, path)
        yield Held(path)
    finally:
        os.close(folder)


def _lock(folder: int, path: Path) -> None:
    import fcntl  # not on Windows, where the server still starts to say so

    until = time.monotonic() + _WAIT
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise BadInput(
                    f"{path.parent.name}/{path.name} is being written by another process that does not end",
                    fix="End the other server or program that writes configs here, then call again.",
                    code="config-registry-busy",
                ) from None
            time.sleep(0.02)
        except OSError:
            return  # a network file system without locks: as good as it gets there


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


def _read(path: Path) -> tuple[tuple[Entry, ...], dict[str, Any]]:
    """The entries, and what else the file holds."""
    try:
        raw = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return (), {}
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, "it is no readable text file") from error
    try:
        found = json.loads(raw)
    except (json.JSONDecodeError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise _unreadable(path, f"it is not valid JSON{line}") from error
    try:
        return _entries(found)
    except ValueError as error:
        raise _unreadable(path, str(error)) from error


def _entries(found: Any) -> tuple[tuple[Entry, ...], dict[str, Any]]:
    if isinstance(found, Mapping) and is_older(found):
        return taken_over(found)
    if not isinstance(found, Mapping) or not isinstance(found.get("configs"), list):
        raise ValueError('it is not of the form {"schema": 1, "configs": [...]}')
    if found.get("schema") != _SCHEMA:
        raise ValueError(f"its schema is not {_SCHEMA}")
    rest = {key: value for key, value in found.items() if key not in ("schema", "configs")}
    return tuple(entry_of(row) for row in found["configs"]), rest


def _unreadable(path: Path, why: str) -> BadInput:
    return BadInput(
        f"{path.parent.name}/{path.name} cannot be used: {why}",
        fix="Mend it or move it away; it is never overwritten. Then call write_training_config again.",
        code="config-registry-unreadable",
        where=f"{path.parent.name}/{path.name}",
    )
