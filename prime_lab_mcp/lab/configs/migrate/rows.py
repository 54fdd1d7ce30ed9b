"""One row for every key of an older file, whatever its value went through on the way to its present place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.configs.draft import Draft, KeyPath
from prime_lab_mcp.lab.text import clip, escape, quote, redact

KEPT = "kept"
_NAMES = ("name", "run.name", "monitors.wandb.name")
"""Every written file gets a name of its own, which is no change to tell."""
_SECRET = re.compile(r"(^|[._])(key|token|secret|password)s?$", re.I)


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one key. `to` is the new place and value, "kept" or "dropped".

    `place` and `value` are the new dotted key and what stands there, where one took its place.
    """

    key: str
    to: str
    why: str
    was: Any = None
    place: str | None = None
    value: Any = None

    def as_json(self) -> dict[str, Any]:
        secret = isinstance(self.was, str) and bool(_SECRET.search(self.key))
        to = "dropped" if secret and self.to != KEPT else escape(clip(redact(self.to), 200))
        shown: dict[str, Any] = {"key": escape(clip(self.key, 120)), "to": to, "why": self.why}
        if self.was is not None:
            plain = isinstance(self.was, (bool, int, float))
            shown["from"] = "a secret" if secret else self.was if plain else quote(self.was, limit=80)
        return shown


class Rows:
    """The rows of one migration, by the key as the older file spells it.

    A value may move twice (`eval.x` to `orchestrator.eval.x` to a source): `_origin` remembers where it started.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._old = {dotted(path, table): value for path, value in leaves(table)}
        self._rows: dict[str, Change] = {}
        self._origin: dict[str, str] = {}

    def moved(self, old: str, new: str, value: Any, why: str, was: Any = None) -> None:
        """Also for a whole table: then each of its keys has its row."""
        inner = _inner(value)
        for below, leaf in inner:
            key = self.origin(old + below)
            self._origin.pop(old + below, None)
            self._origin[new + below] = key
            first = leaf if was is None or below else was
            self._rows[key] = Change(key, told(new + below, leaf), why, first, new + below, leaf)

    def dropped(self, old: str, value: Any, why: str, to: str = "dropped") -> None:
        for below, leaf in _inner(value):
            key = self.origin(old + below)
            self._rows[key] = Change(key, to, why, leaf)

    def origin(self, place: str) -> str:
        """The key of the older file that a present place was filled from."""
        return self._origin.get(place, place)

    def all(self, draft: Draft) -> tuple[Change, ...]:
        """In the order of the older file. What nobody touched is kept, which is looked up and not assumed."""
        places = index(draft.table)
        for key, value in self._old.items():
            if key in self._rows:
                continue
            if draft.get(places.get(key, ("",))) == value:
                self._rows[key] = Change(key, KEPT, "the same key today", value, key, value)
            else:
                self._rows[key] = Change(key, "dropped", "another key of this file has its place", value)
        order = {key: number for number, key in enumerate(self._old)}
        return tuple(sorted(self._rows.values(), key=lambda row: order.get(row.key, len(order))))


def settled(rows: Iterable[Change], later: Iterable[Change], draft: Draft, moved: bool) -> tuple[Change, ...]:
    """Rows as the finished file has them. `later`: what planning changed; `moved`: the file was of an older shape.

    A value that planning made another is told in the row of the key that it came from. Kept keys of a file that
    needed no migration are not worth a row.
    """
    reasons = {change.key: change.why for change in later}
    places = index(draft.table)
    found: dict[str, Change] = {}
    for row in rows:
        if row.place is None:
            found[row.key] = row
        elif moved or row.place not in _NAMES:
            settled_row = _settled(row, places.get(row.place), draft, reasons.get(row.place))
            if moved or settled_row.to != KEPT:
                found[row.key] = settled_row
    told_of = {*found, *(row.place for row in found.values())}
    return (*found.values(), *(change for change in later if change.key not in told_of))


def _settled(row: Change, path: KeyPath | None, draft: Draft, asked: str | None) -> Change:
    now = None if path is None else draft.get(path)
    if path is None or now is None:
        return replace(row, to="dropped", why=asked or "this call replaced it", place=None)
    if now == row.value:
        return row
    return replace(row, to=told(row.place or row.key, now), why=asked or draft.reasons.get(path) or row.why, value=now)


def told(key: str, value: Any) -> str:
    """A key with its value, where that is short."""
    return f"{key} = {value}" if not isinstance(value, (dict, list)) else key if value else f"[{key}]"


def leaves(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value and every empty table, arrays of tables followed."""
    for key, value in table.items():
        here = (*path, key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, here)
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            for index, entry in enumerate(value):
                yield from leaves(entry, (*here, index))
        else:
            yield here, value


def dotted(path: KeyPath, table: Mapping[str, Any]) -> str:
    """`orchestrator.env[1].args.seed`; the index of an only entry is left out, as a person would."""
    shown = ""
    node: Any = table
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]" if len(node) > 1 else ""
        else:
            shown += f".{part}" if shown else part
        node = node[part]
    return shown


def index(table: Mapping[str, Any]) -> dict[str, KeyPath]:
    """Every dotted key of a table to its path, with and without the index of an only entry; also of tables."""
    found: dict[str, KeyPath] = {}
    for path in _nodes(table):
        found.setdefault(indexed(path), path)
        found.setdefault(dotted(path, table), path)
    return found


def _nodes(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in table.items():
        here = (*path, key)
        yield here
        if isinstance(value, Mapping):
            yield from _nodes(value, here)
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                yield (*here, index)
                if isinstance(entry, Mapping):
                    yield from _nodes(entry, (*here, index))


def indexed(path: KeyPath) -> str:
    """A path as `orchestrator.env[0].id`, with every index."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else part
    return shown


def _inner(value: Any) -> list[tuple[str, Any]]:
    """Suffixes of the keys below a value; the value itself where it is none or an empty table."""
    if isinstance(value, Mapping) and value:
        return [(f".{dotted(path, value)}", leaf) for path, leaf in leaves(value)]
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        held = {"_": value}
        return [(dotted(path, held)[1:], leaf) for path, leaf in leaves(held)]
    return [("", value)]
