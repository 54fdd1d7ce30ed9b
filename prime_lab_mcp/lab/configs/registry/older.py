"""The registry of older instructions: `active_configs` by name, `configs` by path with their versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from prime_lab_mcp.lab.configs.registry.entry import Entry

_NUMBER = re.compile(r"v?(\d{1,4})$")
_LEADING = re.compile(r"v?(\d{1,4})")
_OF_VERSION = ("created", "notes", "based_on")


def is_older(found: Mapping[str, Any]) -> bool:
    return "schema" not in found and isinstance(found.get("configs"), Mapping)


def taken_over(found: Mapping[str, Any]) -> tuple[tuple[Entry, ...], dict[str, Any]]:
    """Its versions as entries, oldest first, and what has no place in them. Raises ValueError."""
    active = found.get("active_configs")
    named = {str(k): str(v) for k, v in active.items()} if isinstance(active, Mapping) else {}
    entries: list[Entry] = []
    for path, config in found["configs"].items():
        if not isinstance(config, Mapping):
            raise ValueError(f"what it says of {path} is no table")
        entries += _versions(str(path), config, named, {(e.name, e.version) for e in entries})
    placed = {f"{e.path}:{_written(e)}" for e in entries}
    lost = {name: target for name, target in named.items() if target not in placed}
    rest = {key: value for key, value in found.items() if key not in ("active_configs", "configs")}
    return tuple(entries), {**rest, **({"active_configs": lost} if lost else {})}


def _versions(
    path: str, config: Mapping[str, Any], named: Mapping[str, str], taken: set[tuple[str, int]]
) -> Iterator[Entry]:
    name = next((n for n, target in named.items() if target.rpartition(":")[0] == path), PurePosixPath(path).stem)
    versions = config.get("versions")
    if not isinstance(versions, Mapping) or not versions:
        versions = {str(config.get("current_version") or "v1"): {}}
    shared = {k: v for k, v in config.items() if k not in ("model", "hardware", "versions")}
    for label, told in versions.items():
        told = told if isinstance(told, Mapping) else {"notes": str(told)}
        number = _free(name, str(label), taken)
        taken.add((name, number))
        yield Entry(
            name=name,
            version=number,
            path=path,
            created=str(told.get("created", "")),
            model=str(config.get("model", "")),
            target="self-managed",
            environments=(),
            sha256="",
            based_on=_text(told.get("based_on")),
            notes=_text(told.get("notes")),
            active=named.get(name) == f"{path}:{label}",
            hardware=_text(config.get("hardware")),
            label=None if _NUMBER.fullmatch(str(label)) and str(label) == f"v{number}" else str(label),
            rest={**shared, **{k: v for k, v in told.items() if k not in _OF_VERSION}},
        )


def _free(name: str, label: str, taken: set[tuple[str, int]]) -> int:
    """The number of a version, the next free one where two labels have the same (`v1`, `v1.1`)."""
    found = _LEADING.match(label)
    number = int(found[1]) if found else 1
    while (name, number) in taken:
        number += 1
    return number


def _written(entry: Entry) -> str:
    return entry.label or f"v{entry.version}"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
