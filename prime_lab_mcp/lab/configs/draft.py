"""A config under construction: a table, a reason for each value, its lineage, and its text.

A file that a person has edited is edited again instead of rewritten, so comments and order stay.

New text is emitted line by line and not by a TOML library's document model, because the text must read alike in TOML
1.0 and in the old parser that `prime train` uses, and each value carries its reason on its own line.
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

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigTarget
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT

KeyPath = tuple[str | int, ...]

_ORDER = (
    "name",
    "gpu_type",
    "env_files",
    "max_steps",
    "seq_len",
    "run",
    "model",
    "deployment",
    "ckpt",
    "monitors",
    "trainer",
    "orchestrator",
    "inference",
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DATED = re.compile(r"^# created: .*$", re.M)


@dataclass(slots=True)
class ConfigDraft:
    """A mutable config. Paths are tuples; an integer indexes an array of tables."""

    table: dict[str, Any] = field(default_factory=dict)
    reasons: dict[KeyPath, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Keys of an older file without a successor, each with the reason."""

    def put(self, path: str | KeyPath, value: Any, why: str) -> None:
        """Set a value and create the tables on its path."""
        *parents, last = _parts(path)
        node: Any = self.table
        for part, following in pairwise([*parents, last]):
            if isinstance(part, int):
                node = node[part]
            else:
                container = list if isinstance(following, int) else dict
                if not isinstance(node.get(part), container):
                    node[part] = container()  # an older file may hold anything here
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

    def merge(self, settings: Mapping[str, Any], why: str) -> None:
        """Set nested or dotted values. A table is merged into the present one, never put in its place.

        Raises BadInput for a value in the place of an array of tables, which holds the sources.
        """
        for path, value in flat_values(settings):
            present = self.get(path)
            if isinstance(value, Mapping) and isinstance(present, Mapping):
                continue  # an empty table only says that the table is there
            holders = [self.get(path[:end]) for end in range(1, len(path) + 1)]
            if any(_tables(holder) for holder in holders):
                raise BadInput(
                    f"{quote('.'.join(map(str, path)), limit=120)} lies in a list of tables, which would be replaced",
                    fix="Choose the sources with environments, their keys with env_args, the held-out ones with eval.",
                    code="config-bad-value",
                )
            self.put(path, value, why)

    def pop(self, path: str | KeyPath) -> Any:
        """Remove and return a value, and remove tables that become empty."""
        *parents, last = _parts(path)
        holder: Any = self.get(tuple(parents)) if parents else self.table
        value = holder.pop(last)
        if parents and holder == {} and parents[-1] != "inference" and not isinstance(parents[-1], int):
            self.pop(tuple(parents))
        return value


def flat_values(settings: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value and every empty table of nested or dotted values, each with its path.

    A dot separates keys at the top and inside tables, but for the tables of variables, whose keys are free.
    """
    for key, value in settings.items():
        free = bool(path) and str(path[-1]) in _FREE_KEYS
        full_path = (*path, key) if free else (*path, *str(key).split("."))
        if isinstance(value, Mapping) and value:
            yield from flat_values(value, full_path)
        else:
            yield full_path, value


_FREE_KEYS = frozenset({"env_vars", "extra_body", "headers", "kwargs"})


@dataclass(frozen=True, slots=True)
class ConfigLineage:
    """The origin of a config. The caller gives `created`, so that writing is a pure function."""

    name: str
    version: int
    created: date
    target: ConfigTarget
    environments: tuple[str, ...]
    based_on: str | None = None
    notes: str | None = None
    earlier: tuple[str, ...] = ()
    """The header lines of an older file."""


def render_draft(draft: ConfigDraft, lineage: ConfigLineage) -> str:
    """The text of the file. Raises BadInput for a value that TOML cannot hold."""
    ranked = {name: index for index, name in enumerate(_ORDER)}
    top = dict(sorted(draft.table.items(), key=lambda item: ranked.get(item[0], len(ranked))))
    lines = [*header_comments(lineage), "", *_table(top, (), draft.reasons)]
    if draft.left_out:
        lines += ["", "# Not taken over:", *(f"#   {safe_comment(line)}" for line in draft.left_out)]
    return "\n".join(lines).rstrip("\n") + "\n"


def same_but_for_date(one: str, other: str) -> bool:
    """Whether two texts differ at most in the date of writing."""
    return _DATED.sub("", one) == _DATED.sub("", other)


def safe_comment(text: str) -> str:
    """A comment that cannot end early or confuse an old parser: printable ASCII on one line, without quotes."""
    printable = "".join(c if " " <= c <= "~" and c not in "\"'" else " " for c in text)
    return re.sub(r" +", " ", printable).strip()[:200]


def header_comments(lineage: ConfigLineage) -> list[str]:
    """The comments at the head of a written file."""
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
    return [f"# {safe_comment(line)}" for line in lines]


def _parts(path: str | KeyPath) -> KeyPath:
    return tuple(path.split(".")) if isinstance(path, str) else path


def _table(table: Mapping[str, Any], path: KeyPath, reasons: Mapping[KeyPath, str]) -> Iterator[str]:
    """Values first, then tables, because in TOML a value after a header belongs to that header."""
    for key, value in table.items():
        if not _nested(value):
            why = reasons.get((*path, key), "")
            yield f"{_key(key)} = {_scalar(key, value)}" + (f"  # {safe_comment(why)}" if why else "")
    for key, value in table.items():
        full_path = (*path, key)
        if isinstance(value, Mapping):
            if not value or not all(_nested(v) for v in value.values()):
                why = reasons.get(full_path, "")
                yield ""
                yield f"[{_dotted(full_path)}]" + (f"  # {safe_comment(why)}" if why else "")
            yield from _table(value, full_path, reasons)
        elif _nested(value):
            for index, entry in enumerate(value):
                yield ""
                yield f"[[{_dotted(full_path)}]]"
                yield from _table(entry, (*full_path, index), reasons)


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


_OURS = re.compile(
    r"# (?:.*: a prime-rl training config; |target: |created: |version: |based_on: |earlier: |earlier notes: |"
    r"environments: |notes: |schema: prime-rl )"
)
_BEFORE = re.compile(r".* \(before: .*?; (.*)\)")


def edited_text(
    base_text: str, table: Mapping[str, Any], reasons: Mapping[KeyPath, str], lineage: ConfigLineage
) -> str:
    """The text of a file with exactly the values of `table`. Only lines whose value differs change.

    Raises ValueError where the text cannot be edited to hold that table; the caller then writes a new text. A changed
    value gets its reason as a comment, and the older comment stays as one on the older value.
    """
    import tomlkit  # not needed until a config is written

    lines = base_text.splitlines(keepends=True)
    end = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    header = [line for line in lines[:end] if not _OURS.match(line)]
    try:
        document = tomlkit.parse("".join([*header, *lines[end:]]).lstrip("\n"))
        _fit(document, table, (), reasons)
        body = tomlkit.dumps(document)
    except Exception as error:  # tomlkit has many kinds of its own, and stumbles over rare layouts
        raise ValueError(f"the text cannot be edited: {error}") from error
    gap = "" if body.startswith("#") else "\n"
    return "\n".join(header_comments(lineage)) + "\n" + gap + body


def _fit(container: Any, target: Mapping[str, Any], path: KeyPath, reasons: Mapping[KeyPath, str]) -> None:
    """Make a tomlkit table hold the new values and leave its other lines unchanged."""
    for key in [key for key in container if key not in target]:
        del container[key]
    # Values before tables: in TOML a value after a header belongs to that header.
    for key, value in sorted(target.items(), key=lambda item: isinstance(item[1], (Mapping, list))):
        full_path = (*path, key)
        if key not in container:
            container[key] = _new_item(value, full_path, reasons)
            continue
        present = container[key]
        if isinstance(value, Mapping) and not value and isinstance(present, Mapping) and present:
            container[key] = _new_item(
                value, full_path, reasons
            )  # an emptied `[a.b]` would take its implied `[a]` with it
        elif isinstance(value, Mapping) and isinstance(present, Mapping):
            _fit(present, value, full_path, reasons)
        elif _tables(value) and _tables(present) and len(value) == len(present):
            for index, entry in enumerate(value):
                _fit(present[index], entry, (*full_path, index), reasons)
        elif _differs(present, value):
            _replace(container, key, value, reasons.get(full_path, ""))


def _replace(container: Any, key: str, value: Any, why: str) -> None:
    old = container[key]
    comment = str(getattr(getattr(old, "trivia", None), "comment", "")).lstrip("# ").strip()
    before = getattr(old, "as_string", lambda: str(old))()
    container[key] = value
    item = container[key]
    if _tables(value) or isinstance(value, Mapping) or not hasattr(item, "trivia"):
        return
    why = safe_comment(why)
    if match := _BEFORE.fullmatch(comment):
        comment = match[1]  # of the first value, so that a line does not grow with every change
    new_comment = why if comment in ("", why) else f"{why} (before: {before.strip()}; {comment})" if why else comment
    item.trivia.comment = f"# {new_comment}" if new_comment else ""
    item.trivia.comment_ws = "  " if new_comment else ""


def _new_item(value: Any, path: KeyPath, reasons: Mapping[KeyPath, str]) -> Any:
    """A new tomlkit value with its reasons as a comment."""
    import tomlkit
    from tomlkit.items import AoT

    if isinstance(value, Mapping):
        table = tomlkit.table()
        for key, inner in sorted(value.items(), key=lambda item: isinstance(item[1], Mapping) or _tables(item[1])):
            table.add(key, _new_item(inner, (*path, key), reasons))
        return table
    if _tables(value):
        return AoT([_new_item(entry, (*path, index), reasons) for index, entry in enumerate(value)])
    item = tomlkit.item(value)
    if why := safe_comment(reasons.get(path, "")):
        item.comment(why)
        item.trivia.comment_ws = "  "
    return item


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _differs(present: Any, value: Any) -> bool:
    plain_value = present.unwrap() if hasattr(present, "unwrap") else present
    return type(plain_value) is not type(value) or plain_value != value
