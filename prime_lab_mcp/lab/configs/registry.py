"""Reads and writes `configs/registry.json`, which lists all versions of the configs of a workspace.

The file should be committed together with the configs. Only one process writes it at a time. A registry of an older
format is converted. `drift_finding` reports a config whose values were changed after its version was registered.
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
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.migrate.rows import LineageHeader, dotted_key, leaf_values


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One version of a config.

    `active` marks the newest version of a name. `sha256` is that of the written file, empty if unknown.
    """

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
    """Version of each environment that the config trains on, by `owner/name`."""
    hardware: str | None = None
    """The GPUs, such as `2x H200_141GB`."""
    label: str | None = None
    """The version as an older registry or header states it, if that is not `v` and a number."""
    parameters: Mapping[str, Any] | None = None
    """Values of the written config by dotted key, to detect later edits. None if unknown."""
    other_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the row that this module does not use. They are preserved."""

    def as_json(self) -> dict[str, Any]:
        """Return the row of the file, without empty fields."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "other_fields"}
        row = {key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}
        return {**{k: v for k, v in row.items() if v is not None and v != {}}, **self.other_fields}


def entry_of(row: Any) -> RegistryEntry:
    """Return the entry of one row of the file. Raises ValueError for any other data."""
    if not isinstance(row, Mapping) or not isinstance(row.get("environments"), list):
        raise ValueError("one of its entries is no config")
    names = {f.name for f in fields(RegistryEntry)} - {"environments", "other_fields"}
    parsed = {key: value for key, value in row.items() if key in names}
    for key, kind in (("name", str), ("path", str), ("version", int), ("environment_versions", Mapping)):
        if key in parsed and not isinstance(parsed[key], kind):
            raise ValueError(f"the {key} of one of its entries has the wrong type")
    other_fields = {key: value for key, value in row.items() if key not in names and key != "environments"}
    try:
        return RegistryEntry(**parsed, environments=tuple(map(str, row["environments"])), other_fields=other_fields)
    except TypeError as error:
        raise ValueError("one of its entries lacks a field") from error


_NUMBER = re.compile(r"v?(\d{1,4})$")
_LEADING = re.compile(r"v?(\d{1,4})")
_OF_VERSION = ("created", "notes", "based_on")


def is_older_registry(document: Mapping[str, Any]) -> bool:
    """Whether a document is a registry of the older format, which has no key `schema`."""
    return "schema" not in document and isinstance(document.get("configs"), Mapping)


def entries_of_older(document: Mapping[str, Any]) -> tuple[tuple[RegistryEntry, ...], dict[str, Any]]:
    """Return the versions of an older registry as entries, oldest first, and the other content of the document.

    Raises ValueError for a document that is not of that format.
    """
    active = document.get("active_configs")
    active_versions = {str(k): str(v) for k, v in active.items()} if isinstance(active, Mapping) else {}
    entries: list[RegistryEntry] = []
    for path, config in document["configs"].items():
        if not isinstance(config, Mapping):
            raise ValueError(f"what it says of {path} is no table")
        entries += _versions(str(path), config, active_versions, {(e.name, e.version) for e in entries})
    placed = {f"{e.path}:{_version_label(e)}" for e in entries}
    lost = {name: target for name, target in active_versions.items() if target not in placed}
    other = {key: value for key, value in document.items() if key not in ("active_configs", "configs")}
    return tuple(entries), {**other, **({"active_configs": lost} if lost else {})}


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
            other_fields={**shared, **{k: v for k, v in row.items() if k not in _OF_VERSION}},
        )


def _free(name: str, label: str, used: set[tuple[str, int]]) -> int:
    """Return the number in a version's label, or the next free number if another label has it (`v1`, `v1.1`)."""
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
"""Seconds to wait for another process that writes the registry. Writing takes milliseconds."""


def load_registry(path: Path) -> tuple[RegistryEntry, ...]:
    """Return all entries of the registry, oldest first. Empty if the file does not exist.

    Raises BadInput if the file cannot be read.
    """
    return _read(path)[0]


def add_entry(path: Path, entry: RegistryEntry) -> None:
    """Append an entry to the registry. Raises BadInput if the file cannot be read, without changing it."""
    with locked_registry(path) as registry:
        registry.add(entry)


@dataclass(frozen=True, slots=True)
class LockedRegistry:
    """The registry while this process holds its lock, so that no other process writes it or chooses a name."""

    path: Path

    def add(self, entry: RegistryEntry) -> None:
        """Append an entry, or replace the entry of the same version. An active entry deactivates others of its name."""
        entries, other_content = _read(self.path)
        identity = (entry.name, entry.version, entry.path)
        earlier = [
            replace(old, active=False) if entry.active and old.name == entry.name else old
            for old in entries
            if (old.name, old.version, old.path) != identity
        ]
        rows = [e.as_json() for e in (*earlier, entry)]
        text = json.dumps({"schema": _SCHEMA, "configs": rows, **other_content}, indent=2, ensure_ascii=False)
        replace_text(self.path, text + "\n")

    def add_older(
        self, config: TrainingConfig, path: str, header: LineageHeader, environments: tuple[str, ...]
    ) -> None:
        """Add a config that is not in the registry and states its lineage in its own header.

        `path` is relative to the workspace. `environments` are its taskset ids, which all have the header's version.
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
        """Whether another file than `path` already has this name and version."""
        return any((e.name, e.version) == (name, version) and e.path != path for e in load_registry(self.path))


@contextmanager
def locked_registry(path: Path) -> Iterator[LockedRegistry]:
    """Hold the lock of a registry. The lock is not reentrant.

    The lock is on the workspace's folder, because the file itself is replaced, and a separate lock file would remain.
    Raises BadInput if another process holds the lock for too long.
    """
    folder = os.open(path.parent.parent, os.O_RDONLY)
    try:
        _lock(folder, path)
        yield LockedRegistry(path)
    finally:
        os.close(folder)


def _lock(folder: int, path: Path) -> None:
    import fcntl  # Windows lacks this module; the server still starts there, to say that it needs another system

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
            return  # a network file system without locks


def replace_text(path: Path, text: str) -> None:
    """Write a file atomically: a concurrent reader sees the old or the new text."""
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
    """Return the entries of the registry and the other content of the file. Raises BadInput."""
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
    other_content = {key: value for key, value in document.items() if key not in ("schema", "configs")}
    return tuple(entry_of(row) for row in document["configs"]), other_content


def _unreadable(path: Path, why: str) -> BadInput:
    return BadInput(
        f"{path.parent.name}/{path.name} cannot be used: {why}",
        fix=Fix(
            "Mend it or move it away; it is never overwritten. Then call ",
            NamedCall("write_training_config"),
            " again.",
        ),
        code="config-registry-unreadable",
        where=f"{path.parent.name}/{path.name}",
    )


_NOT_PARAMETERS = frozenset({"name", "run.name", "monitors.wandb.name"})
_VERSION_LINE = re.compile(r"^# version: (\d{1,6})\s*$", re.M)
_MOST_LISTED = 20


def drift_finding(path: Path, config: TrainingConfig) -> Finding | None:
    """Return a warning if values of a registered config were edited while its version stayed the same.

    `path` is the registry. The parsed values are compared, so comments may be edited freely.
    """
    try:
        entries = load_registry(path)
        relative = config.path.resolve().relative_to(path.resolve().parent.parent).as_posix()
    except (BadInput, ValueError):
        return None  # write_training_config reports the problem of the registry
    entry = next((e for e in reversed(entries) if e.path == relative and e.parameters is not None), None)
    if entry is None or entry.parameters is None or entry.sha256 == config.sha256:
        return None
    match = _VERSION_LINE.search(config.text)
    if match is not None and int(match[1]) > entry.version:
        return None  # the person also increased the version
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
    """Return the values of a config that affect a run, by dotted key, as JSON represents them."""
    settings = {dotted_key(path, table): value for path, value in leaf_values(table)}
    parameters = {key: value for key, value in settings.items() if key not in _NOT_PARAMETERS}
    loaded: dict[str, Any] = json.loads(
        json.dumps({key: _finite(value) for key, value in parameters.items()}, default=str)
    )
    return loaded


def config_hardware(config: TrainingConfig) -> str:
    """Return the GPUs of a config in the form of the registry, such as `2x H200_141GB`."""
    return f"{config.gpus}x {config.gpu_type or 'GPU'}"


def _report_value(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else quote(value, limit=80)


def _finite(value: Any) -> Any:
    """Return a value that JSON can represent. JSON has no infinity, so an infinite number becomes a text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
