"""Records, for every key of an older config, where its value moved or why it was dropped.

A value may move several times. `LineageHeader` is the table `[config]` at the top of older configs, which stated their
version and origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.text import clip, escape, key_path, quote, redact
from prime_lab_mcp.lab.configs.draft import ConfigDraft, KeyPath

UNCHANGED = "kept"
"""The value of KeyChange.to for a key that stays as it is."""
_NAMES = ("name", "run.name", "monitors.wandb.name")
"""Keys with the name of the run. Every written file has a new name, which is not reported as a change."""
_SECRET = re.compile(r"(^|[._])(key|token|secret|password)s?$", re.I)


@dataclass(frozen=True, slots=True)
class KeyChange:
    """The migration of one key of an older config.

    `key` and `was` are the older key and its value. `to` describes the result: the new key with its value, "kept" or
    "dropped". `place` and `value` are the new dotted key and its value, None for a dropped key.
    """

    key: str
    to: str
    why: str
    was: Any = None
    place: str | None = None
    value: Any = None

    def as_json(self) -> dict[str, Any]:
        """Return the row of a report, without values that may be secrets."""
        secret = isinstance(self.was, str) and bool(_SECRET.search(self.key))
        to = "dropped" if secret and self.to != UNCHANGED else escape(clip(redact(self.to), 200))
        row: dict[str, Any] = {"key": escape(clip(self.key, 120)), "to": to, "why": self.why}
        if self.was is not None:
            is_scalar = isinstance(self.was, (bool, int, float))
            row["from"] = "a secret" if secret else self.was if is_scalar else quote(self.was, limit=80)
        return row


class MigrationRows:
    """The rows of one migration, by the key of the older file.

    A value may move twice, such as from `eval.x` to `orchestrator.eval.x` and then to a source. Its row has the first
    key.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._old = {dotted_key(path, table): value for path, value in leaf_values(table)}
        self._rows: dict[str, KeyChange] = {}
        self._origin: dict[str, str] = {}
        """The key of the older file by present key, for moved values."""

    def moved(self, old: str, new: str, value: Any, why: str, was: Any = None) -> None:
        """Record that a value moved from the key `old` to `new`. If a table moves, each of its keys gets a row."""
        inner = _inner(value)
        for below, leaf in inner:
            key = self.origin(old + below)
            self._origin.pop(old + below, None)
            self._origin[new + below] = key
            first = leaf if was is None or below else was
            self._rows[key] = KeyChange(key, key_with_value(new + below, leaf), why, first, new + below, leaf)

    def dropped(self, old: str, value: Any, why: str, to: str = "dropped") -> None:
        """Record that a key was removed. `to` describes what replaces it, if anything does."""
        for below, leaf in _inner(value):
            key = self.origin(old + below)
            self._rows[key] = KeyChange(key, to, why, leaf)

    def origin(self, place: str) -> str:
        """Return the key of the older file whose value moved to a present key."""
        return self._origin.get(place, place)

    def all(self, draft: ConfigDraft) -> tuple[KeyChange, ...]:
        """Return all rows in the order of the older file. A key without a move is kept if the draft has its value."""
        places = key_index(draft.table)
        for key, value in self._old.items():
            if key in self._rows:
                continue
            if draft.get(places.get(key, ("",))) == value:
                self._rows[key] = KeyChange(key, UNCHANGED, "the same key today", value, key, value)
            else:
                self._rows[key] = KeyChange(key, "dropped", "another key of this file has its place", value)
        order = {key: number for number, key in enumerate(self._old)}
        return tuple(sorted(self._rows.values(), key=lambda row: order.get(row.key, len(order))))


def final_changes(
    rows: Iterable[KeyChange], later: Iterable[KeyChange], draft: ConfigDraft, moved: bool
) -> tuple[KeyChange, ...]:
    """Return the rows of the finished config, from those of the migration and the later changes of the plan.

    `draft` is the finished draft, and `moved` says whether the file had an older shape. A value that the plan changed
    is reported in the row of its older key. Unchanged keys of a file with the present shape are left out.
    """
    reasons = {change.key: change.why for change in later}
    places = key_index(draft.table)
    latest: dict[str, KeyChange] = {}
    for row in rows:
        if row.place is None:
            latest[row.key] = row
        elif moved or row.place not in _NAMES:
            settled_row = _settled(row, places.get(row.place), draft, reasons.get(row.place))
            if moved or settled_row.to != UNCHANGED:
                latest[row.key] = settled_row
    reported = {*latest, *(row.place for row in latest.values())}
    return (*latest.values(), *(change for change in later if change.key not in reported))


def _settled(row: KeyChange, path: KeyPath | None, draft: ConfigDraft, reason: str | None) -> KeyChange:
    now = None if path is None else draft.get(path)
    if path is None or now is None:
        return replace(row, to="dropped", why=reason or "this call replaced it", place=None)
    if now == row.value:
        return row
    return replace(
        row, to=key_with_value(row.place or row.key, now), why=reason or draft.reasons.get(path) or row.why, value=now
    )


def key_with_value(key: str, value: Any) -> str:
    """Return `key = value`, or only the key for a table or list."""
    return f"{key} = {value}" if not isinstance(value, (dict, list)) else key if value else f"[{key}]"


def leaf_values(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and value of every value and every empty table, also in arrays of tables."""
    for key, value in table.items():
        full_path = (*path, key)
        if isinstance(value, Mapping) and value:
            yield from leaf_values(value, full_path)
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            for index, entry in enumerate(value):
                yield from leaf_values(entry, (*full_path, index))
        else:
            yield full_path, value


def dotted_key(path: KeyPath, table: Mapping[str, Any]) -> str:
    """Return a path as text, such as `orchestrator.env[1].args.seed`. The index of an only entry is left out.

    A key that is no plain word is quoted, as in the problems of a schema.
    """
    dotted = ""
    node: Any = table
    for part in path:
        if isinstance(part, int):
            dotted += f"[{part}]" if len(node) > 1 else ""
        else:
            shown = key_path((part,))
            dotted += f".{shown}" if dotted else shown
        node = node[part]
    return dotted


def key_index(table: Mapping[str, Any]) -> dict[str, KeyPath]:
    """Return the path of every key and table by its text, both with and without the index of an only entry."""
    index: dict[str, KeyPath] = {}
    for path in _nodes(table):
        index.setdefault(indexed_path(path), path)
        index.setdefault(dotted_key(path, table), path)
    return index


def _nodes(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in table.items():
        full_path = (*path, key)
        yield full_path
        if isinstance(value, Mapping):
            yield from _nodes(value, full_path)
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                yield (*full_path, index)
                if isinstance(entry, Mapping):
                    yield from _nodes(entry, (*full_path, index))


def indexed_path(path: KeyPath) -> str:
    """Return a path as text with every index, such as `orchestrator.env[0].id`."""
    dotted = ""
    for part in path:
        dotted += f"[{part}]" if isinstance(part, int) else f".{part}" if dotted else part
    return dotted


def _inner(value: Any) -> list[tuple[str, Any]]:
    """Return the values inside a table or array of tables, each with the end of its dotted key.

    For any other value, the result is the value itself with an empty text.
    """
    if isinstance(value, Mapping) and value:
        return [(f".{dotted_key(path, value)}", leaf) for path, leaf in leaf_values(value)]
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        wrapped = {"_": value}
        return [(dotted_key(path, wrapped)[1:], leaf) for path, leaf in leaf_values(wrapped)]
    return [("", value)]


_FIELDS = ("version", "created", "env_version", "based_on", "notes")
_NUMBER = re.compile(r"v?(\d+)")


@dataclass(frozen=True, slots=True)
class LineageHeader:
    """The lineage that an older config states in its table `[config]`. `version` is as written, such as `v2`."""

    version: str | None = None
    created: str | None = None
    env_version: str | None = None
    based_on: str | None = None
    notes: str | None = None

    @property
    def number(self) -> int:
        """The number in the version; 0 without one. The next version has the following number."""
        match = _NUMBER.match(self.version or "")
        return min(int(match[1]), 9_999) if match else 0

    def lines(self) -> tuple[str, ...]:
        """Return the lineage as lines for the comments of the new file."""
        fields = ("version", "created", "env_version", "based_on")
        parts = [f"{name} {value}" for name in fields if (value := getattr(self, name))]
        return (
            *([f"earlier: {', '.join(parts)}"] if parts else ()),
            *([f"earlier notes: {self.notes}"] if self.notes else ()),
        )


def read_header(table: Any) -> tuple[LineageHeader, dict[str, Any]]:
    """Return the lineage in the table `[config]` of an older config, and the other keys of that table.

    The other keys are settings of the run. In TOML, all keys after a table's header belong to the table, so a line
    `max_steps = 1000` below a pasted lineage table became part of that table.
    """
    if not isinstance(table, Mapping):
        return LineageHeader(), {}
    header = {name: str(table[name]) for name in _FIELDS if table.get(name) not in (None, "", {}, [])}
    return LineageHeader(**header), {key: value for key, value in table.items() if key not in _FIELDS}
