"""`configs/registry.json`, the lineage of configs. The file lies beside the configs and should be committed.

Only one process writes at a time. A registry of an older format is imported. `drift_finding` reports whether a config
still has the values that its version was registered with.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.migrate.rows import LineageHeader, dotted_key, leaf_values


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One version of a config. `active` marks the newest of its name. `sha256` is of the file as written, empty where
    unknown."""

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
    environment_versions: Mapping[str, str] = field(default_factory=dict)
    """Version by environment that the config trains on."""
    hardware: str | None = None
    """GPUs such as `2x H200_141GB`."""
    label: str | None = None
    """The version as an older registry or header writes it, where that is not `v` and a number."""
    parameters: Mapping[str, Any] | None = None
    """Values by dotted key as written, to detect later edits; None where unknown."""
    rest: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the row that this module does not use; they are preserved."""

    def as_json(self) -> dict[str, Any]:
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rest"}
        row = {key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}
        return {**{k: v for k, v in row.items() if v is not None and v != {}}, **self.rest}


def entry_of(row: Any) -> RegistryEntry:
    """Parse a row. Raises ValueError for a row that is no entry."""
    if not isinstance(row, Mapping) or not isinstance(row.get("environments"), list):
        raise ValueError("one of its entries is no config")
    names = {f.name for f in fields(RegistryEntry)} - {"environments", "rest"}
    parsed = {key: value for key, value in row.items() if key in names}
    for key, kind in (("name", str), ("path", str), ("version", int), ("environment_versions", Mapping)):
        if key in parsed and not isinstance(parsed[key], kind):
            raise ValueError(f"the {key} of one of its entries has the wrong type")
    rest = {key: value for key, value in row.items() if key not in names and key != "environments"}
    try:
        return RegistryEntry(**parsed, environments=tuple(map(str, row["environments"])), rest=rest)
    except TypeError as error:
        raise ValueError("one of its entries lacks a field") from error


_NUMBER = re.compile(r"v?(\d{1,4})$")
_LEADING = re.compile(r"v?(\d{1,4})")
_OF_VERSION = ("created", "notes", "based_on")


def is_older_registry(document: Mapping[str, Any]) -> bool:
    """Whether a document is a registry of the older form, which has no `schema`."""
    return "schema" not in document and isinstance(document.get("configs"), Mapping)


def entries_of_older(document: Mapping[str, Any]) -> tuple[tuple[RegistryEntry, ...], dict[str, Any]]:
    """The versions of an older registry as entries, oldest first, and its other content. Raises ValueError."""
    active = document.get("active_configs")
    active_versions = {str(k): str(v) for k, v in active.items()} if isinstance(active, Mapping) else {}
    entries: list[RegistryEntry] = []
    for path, config in document["configs"].items():
        if not isinstance(config, Mapping):
            raise ValueError(f"what it says of {path} is no table")
        entries += _versions(str(path), config, active_versions, {(e.name, e.version) for e in entries})
    placed = {f"{e.path}:{_version_label(e)}" for e in entries}
    lost = {name: target for name, target in active_versions.items() if target not in placed}
    rest = {key: value for key, value in document.items() if key not in ("active_configs", "configs")}
    return tuple(entries), {**rest, **({"active_configs": lost} if lost else {})}


def _versions(
    path: str, config: Mapping[str, Any], active_versions: Mapping[str, str], used: set[tuple[str, int]]
) -> Iterator[RegistryEntry]:
    name = next(
        (n for n, target in active_versions.items() if target.rpartition(":")[0] == path), PurePosixPath(path).stem
    )
    versions = config.get("versions")
    if not isinstance(versions, Mapping) or not versions:
        versions = {str(config.get("current_version") or "v1"): {}}
    shared = {k: v for k, v in config.items() if k not in ("model", "hardware", "versions")}
    for label, row in versions.items():
        row = row if isinstance(row, Mapping) else {"notes": str(row)}
        number = _free(name, str(label), used)
        used.add((name, number))
        yield RegistryEntry(
            name=name,
            version=number,
            path=path,
            created=str(row.get("created", "")),
            model=str(config.get("model", "")),
            target="self-managed",
            environments=(),
            sha256="",
            based_on=_text(row.get("based_on")),
            notes=_text(row.get("notes")),
            active=active_versions.get(name) == f"{path}:{label}",
            hardware=_text(config.get("hardware")),
            label=None if _NUMBER.fullmatch(str(label)) and str(label) == f"v{number}" else str(label),
            rest={**shared, **{k: v for k, v in row.items() if k not in _OF_VERSION}},
        )


def _free(name: str, label: str, used: set[tuple[str, int]]) -> int:
    """The number of a version, or the next free number where two labels have the same (`v1`, `v1.1`)."""
    match = _LEADING.match(label)
    number = int(match[1]) if match else 1
    while (name, number) in used:
        number += 1
    return number


def _version_label(entry: RegistryEntry) -> str:
    return entry.label or f"v{entry.version}"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


REGISTRY = "configs/registry.json"
_SCHEMA = 1
_WAIT = 20.0
"""Seconds to wait for another writer, which takes milliseconds."""


def load_registry(path: Path) -> tuple[RegistryEntry, ...]:
    """All entries, oldest first; none without a registry. Raises BadInput when it cannot be read."""
    return _read(path)[0]


def add_entry(path: Path, entry: RegistryEntry) -> None:
    """Append an entry and make it the active one of its name. An unreadable registry is never overwritten."""
    with locked_registry(path) as registry:
        registry.add(entry)


@dataclass(frozen=True, slots=True)
class LockedRegistry:
    """The registry while no other process may write it or choose the name of a config."""

    path: Path

    def add(self, entry: RegistryEntry) -> None:
        """Append an entry. An active entry deactivates the earlier ones of its name."""
        entries, rest = _read(self.path)
        same = (entry.name, entry.version, entry.path)
        others = [
            replace(old, active=False) if entry.active and old.name == entry.name else old
            for old in entries
            if (old.name, old.version, old.path) != same
        ]
        rows = [e.as_json() for e in (*others, entry)]
        text = json.dumps({"schema": _SCHEMA, "configs": rows, **rest}, indent=2, ensure_ascii=False)
        replace_text(self.path, text + "\n")

    def add_older(
        self, config: TrainingConfig, path: str, header: LineageHeader, environments: tuple[str, ...]
    ) -> None:
        """Add an unknown file that recorded its lineage in its own header.

        `environments` are its taskset ids, which all have the header's version.
        """
        if any(entry.path == path for entry in load_registry(self.path)):
            return
        names = [id.partition("@")[0] for id in environments]
        self.add(
            RegistryEntry(
                name=config.path.stem,
                version=header.number or 1,
                path=path,
                created=header.created or "",
                model=config.model,
                target=config.target,
                environments=tuple(names),
                sha256=config.sha256,
                based_on=header.based_on,
                notes=header.notes,
                active=False,
                environment_versions={name: header.env_version for name in names if header.env_version},
                label=None if header.version == f"v{header.number}" else header.version,
            )
        )

    def is_taken(self, name: str, version: int, path: str) -> bool:
        """Whether another file already has a version of this name."""
        return any((e.name, e.version) == (name, version) and e.path != path for e in load_registry(self.path))


@contextmanager
def locked_registry(path: Path) -> Iterator[LockedRegistry]:
    """Lock the registry of a workspace. One caller must not enter the lock twice.

    The lock is on the workspace's folder, because the file itself is replaced and a lock file would remain. Raises
    BadInput when another process holds the lock for too long.
    """
    folder = os.open(path.parent.parent, os.O_RDONLY)
    try:
        _lock(folder, path)
        yield LockedRegistry(path)
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


def replace_text(path: Path, text: str) -> None:
    """Write a file so that readers see the old or the new text, never a part."""
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


def _read(path: Path) -> tuple[tuple[RegistryEntry, ...], dict[str, Any]]:
    """The entries and the other content of the file."""
    try:
        raw = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return (), {}
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, "it is no readable text file") from error
    try:
        document = json.loads(raw)
    except (json.JSONDecodeError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise _unreadable(path, f"it is not valid JSON{line}") from error
    try:
        return _entries(document)
    except ValueError as error:
        raise _unreadable(path, str(error)) from error


def _entries(document: Any) -> tuple[tuple[RegistryEntry, ...], dict[str, Any]]:
    if isinstance(document, Mapping) and is_older_registry(document):
        return entries_of_older(document)
    if not isinstance(document, Mapping) or not isinstance(document.get("configs"), list):
        raise ValueError('it is not of the form {"schema": 1, "configs": [...]}')
    if document.get("schema") != _SCHEMA:
        raise ValueError(f"its schema is not {_SCHEMA}")
    rest = {key: value for key, value in document.items() if key not in ("schema", "configs")}
    return tuple(entry_of(row) for row in document["configs"]), rest


def _unreadable(path: Path, why: str) -> BadInput:
    return BadInput(
        f"{path.parent.name}/{path.name} cannot be used: {why}",
        fix="Mend it or move it away; it is never overwritten. Then call write_training_config again.",
        code="config-registry-unreadable",
        where=f"{path.parent.name}/{path.name}",
    )


_NOT_PARAMETERS = frozenset({"name", "run.name", "monitors.wandb.name"})
_VERSION_LINE = re.compile(r"^# version: (\d{1,6})\s*$", re.M)
_MOST_LISTED = 20


def drift_finding(path: Path, config: TrainingConfig) -> Finding | None:
    """A warning when a value of a registered file was edited and its version was not. `path` is the registry.

    Parsed values are compared, so comments may be edited freely.
    """
    try:
        entries = load_registry(path)
        relative = config.path.resolve().relative_to(path.resolve().parent.parent).as_posix()
    except (BadInput, ValueError):
        return None  # writing a config tells what is wrong with the registry
    entry = next((e for e in reversed(entries) if e.path == relative and e.parameters is not None), None)
    if entry is None or entry.parameters is None or entry.sha256 == config.sha256:
        return None
    match = _VERSION_LINE.search(config.text)
    if match is not None and int(match[1]) > entry.version:
        return None  # the person counted on, which is the rule
    before, now = entry.parameters, run_parameters(config.table)
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if not keys:
        return None
    listed = ", ".join(quote(key, limit=80) for key in keys[:5]) + (" and more" if len(keys) > 5 else "")
    return Finding(
        "config-changed-without-version",
        "warning",
        f"{count(len(keys), 'value')} of {relative} changed since version {entry.version} was registered: {listed}.",
        f'Call write_training_config(based_on="{relative}"): it registers the values as the next version; '
        "or undo the change.",
        relative,
        tuple(
            {"key": key, "registered": _report_value(before.get(key)), "now": _report_value(now.get(key))}
            for key in keys[:_MOST_LISTED]
        ),
    )


def run_parameters(table: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key of everything that affects a run, as JSON represents them."""
    settings = {dotted_key(path, table): value for path, value in leaf_values(table)}
    parameters = {key: value for key, value in settings.items() if key not in _NOT_PARAMETERS}
    loaded: dict[str, Any] = json.loads(
        json.dumps({key: _finite(value) for key, value in parameters.items()}, default=str)
    )
    return loaded


def config_hardware(config: TrainingConfig) -> str:
    """The GPUs of a config as the registry names them."""
    return f"{config.gpus}x {config.gpu_type or 'GPU'}"


def _report_value(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else quote(value, limit=80)


def _finite(value: Any) -> Any:
    """A value that JSON can hold, because JSON has no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
