"""The `[config]` table that older instructions put at the top of every config: lineage, which prime-rl never read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_FIELDS = ("version", "created", "env_version", "based_on", "notes")
_NUMBER = re.compile(r"v?(\d+)")


@dataclass(frozen=True, slots=True)
class Header:
    """What an older file says of itself. `version` is as written (`v2`)."""

    version: str | None = None
    created: str | None = None
    env_version: str | None = None
    based_on: str | None = None
    notes: str | None = None

    @property
    def number(self) -> int:
        """The version as a number, so that the next one follows it; 0 where there is none."""
        found = _NUMBER.match(self.version or "")
        return min(int(found[1]), 9_999) if found else 0

    def lines(self) -> tuple[str, ...]:
        """For the comments of the new file."""
        told = ("version", "created", "env_version", "based_on")
        parts = [f"{name} {value}" for name in told if (value := getattr(self, name))]
        return (*([f"earlier: {', '.join(parts)}"] if parts else ()),
                *([f"earlier notes: {self.notes}"] if self.notes else ()))  # fmt: skip


def read_header(table: Any) -> tuple[Header, dict[str, Any]]:
    """The header and what else stood under it.

    Keys that follow the header in the file belong to it in TOML: where it was pasted above `max_steps = 1000`, that
    was never the run's.
    """
    if not isinstance(table, Mapping):
        return Header(), {}
    values = {name: str(table[name]) for name in _FIELDS if table.get(name) not in (None, "", {}, [])}
    return Header(**values), {key: value for key, value in table.items() if key not in _FIELDS}
