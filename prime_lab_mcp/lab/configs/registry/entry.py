"""One written version of a config, as the registry keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """`active` marks the newest of its name; `sha256` is of the file as written, empty where nobody took it."""

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
    """Environment to the version that the config trains on."""
    hardware: str | None = None
    """As `2x H200_141GB`."""
    label: str | None = None
    """The version as an older registry or header writes it, where that is no `v` and number."""
    parameters: Mapping[str, Any] | None = None
    """Dotted key to value as written, to see what a hand changed since; None: not known."""
    rest: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the row that are not ours; they are kept."""

    def as_json(self) -> dict[str, Any]:
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rest"}
        shown = {key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}
        return {**{k: v for k, v in shown.items() if v is not None and v != {}}, **self.rest}


def entry_of(row: Any) -> Entry:
    """Raises ValueError for a row that is no entry."""
    if not isinstance(row, Mapping) or not isinstance(row.get("environments"), list):
        raise ValueError("one of its entries is no config")
    known = {f.name for f in fields(Entry)} - {"environments", "rest"}
    values = {key: value for key, value in row.items() if key in known}
    for key, kind in (("name", str), ("path", str), ("version", int), ("environment_versions", Mapping)):
        if key in values and not isinstance(values[key], kind):
            raise ValueError(f"the {key} of one of its entries has the wrong type")
    rest = {key: value for key, value in row.items() if key not in known and key != "environments"}
    try:
        return Entry(**values, environments=tuple(map(str, row["environments"])), rest=rest)
    except TypeError as error:
        raise ValueError("one of its entries lacks a field") from error
