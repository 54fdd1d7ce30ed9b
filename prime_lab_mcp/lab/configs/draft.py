"""A config being made: a plain table, a reason for every value, and its text.

Emitted line by line and not by a TOML library's document model: the text must read alike in TOML 1.0 and in the old
parser that `prime train` uses, and every value carries its reason on its own line.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Any

from prime_lab_mcp.lab.configs.read import Target
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

KeyPath = tuple[str | int, ...]

_ORDER = ("name", "gpu_type", "env_files", "max_steps", "seq_len", "run", "model", "deployment", "ckpt", "monitors",
          "trainer", "orchestrator", "inference")  # fmt: skip
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DATED = re.compile(r"^# created: .*$", re.M)


@dataclass(slots=True)
class Draft:
    """Mutable while a config is put together. Paths are tuples; an integer indexes an array of tables."""

    table: dict[str, Any] = field(default_factory=dict)
    reasons: dict[KeyPath, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Keys of an older file that have no successor, each with the reason."""

    def put(self, path: str | KeyPath, value: Any, why: str) -> None:
        """Set a value, making the tables on the way."""
        *parents, last = _parts(path)
        node: Any = self.table
        for part, following in pairwise([*parents, last]):
            if isinstance(part, int):
                node = node[part]
            else:
                wanted = list if isinstance(following, int) else dict
                if not isinstance(node.get(part), wanted):
                    node[part] = wanted()  # an older file may hold anything here
                node = node[part]
        node[last] = copy.deepcopy(value)
        self.reasons[_parts(path)] = why

    def get(self, path: str | KeyPath) -> Any:
        node: Any = self.table
        for part in _parts(path):
            if isinstance(part, int):
                if not isinstance(node, list) or part >= len(node):
                    return None
            elif not isinstance(node, Mapping) or part not in node:
                return None
            node = node[part]
        return node

    def pop(self, path: str | KeyPath) -> Any:
        """Remove and return a value; tables left empty by it go too."""
        *parents, last = _parts(path)
        holder: Any = self.get(tuple(parents)) if parents else self.table
        value = holder.pop(last)
        if parents and holder == {} and parents[-1] != "inference" and not isinstance(parents[-1], int):
            self.pop(tuple(parents))
        return value


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a config comes from. `created` is given by the caller, so that writing is a pure function."""

    name: str
    version: int
    created: date
    target: Target
    environments: tuple[str, ...]
    based_on: str | None = None
    notes: str | None = None
    earlier: tuple[str, ...] = ()
    """What an older file said of itself, as lines."""


def render(draft: Draft, lineage: Lineage) -> str:
    """The file's text. Raises BadInput for a value that TOML cannot hold."""
    ranked = {name: index for index, name in enumerate(_ORDER)}
    top = dict(sorted(draft.table.items(), key=lambda item: ranked.get(item[0], len(ranked))))
    lines = [*header(lineage), "", *_table(top, (), draft.reasons)]
    if draft.left_out:
        lines += ["", "# Not taken over:", *(f"#   {plain(line)}" for line in draft.left_out)]
    return "\n".join(lines).rstrip("\n") + "\n"


def same_but_for_date(one: str, other: str) -> bool:
    """True when two texts differ at most in the date they were written."""
    return _DATED.sub("", one) == _DATED.sub("", other)


def plain(text: str) -> str:
    """A comment that cannot end early or confuse an old parser: printable ASCII on one line, without quotes."""
    kept = "".join(c if " " <= c <= "~" and c not in "\"'" else " " for c in text)
    return re.sub(r" +", " ", kept).strip()[:200]


def header(lineage: Lineage) -> list[str]:
    """The comments that a written file begins with."""
    how = (
        "submit it with submit_training(config=this file)"
        if lineage.target == "hosted"
        else "run it with `uv run rl @ this-file` where prime-rl and the environments are installed"
    )
    lines = [
        f"{lineage.name}: a prime-rl training config; {how}.",
        f"target: {lineage.target}",
        f"created: {lineage.created.isoformat()} by write_training_config (prime-lab-mcp)",
        f"version: {lineage.version}",
        *([f"based_on: {lineage.based_on}"] if lineage.based_on else []),
        *lineage.earlier,
        f"environments: {', '.join(lineage.environments)}",
        *([f"notes: {lineage.notes}"] if lineage.notes else []),
        f"schema: prime-rl {SCHEMA_COMMIT[:8]}. Comments give the reason of each value; lineage: configs/registry.json",
    ]
    return [f"# {plain(line)}" for line in lines]


def _parts(path: str | KeyPath) -> KeyPath:
    return tuple(path.split(".")) if isinstance(path, str) else path


def _table(table: Mapping[str, Any], path: KeyPath, reasons: Mapping[KeyPath, str]) -> Iterator[str]:
    """Values first, then tables: in TOML a value after a header belongs to that header."""
    for key, value in table.items():
        if not _nested(value):
            why = reasons.get((*path, key), "")
            yield f"{_key(key)} = {_scalar(key, value)}" + (f"  # {plain(why)}" if why else "")
    for key, value in table.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            if not value or not all(_nested(v) for v in value.values()):
                why = reasons.get(here, "")
                yield ""
                yield f"[{_dotted(here)}]" + (f"  # {plain(why)}" if why else "")
            yield from _table(value, here, reasons)
        elif _nested(value):
            for index, entry in enumerate(value):
                yield ""
                yield f"[[{_dotted(here)}]]"
                yield from _table(entry, (*here, index), reasons)


def _nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _dotted(path: KeyPath) -> str:
    return ".".join(_key(part) for part in path if isinstance(part, str))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _scalar(key: str, value: Any) -> str:
    import tomlkit  # not needed until a config is written

    try:
        return str(tomlkit.item(value).as_string())
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(
            f"the value of {quote(key, limit=60)} cannot be written as TOML",
            fix="Use text, numbers, true or false, and lists or tables of them; TOML has no null.",
            code="config-bad-value",
        ) from error
