"""The draft of a config: its values with a reason for each, its lineage, and the TOML text of both.

`render_draft` writes a new text. Each value has its reason as a comment on the same line, and both TOML 1.0 and the old
parser that `prime train` uses read the text alike. `edited_text` changes an older text instead, so that a person's
comments and the order of keys stay.
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

_TABLE_ORDER = (
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
    """A config that can still change. Its keys are addressed by dotted paths or by tuples.

    An integer in a tuple is the index of an entry in an array of tables.
    """

    table: dict[str, Any] = field(default_factory=dict)
    reasons: dict[KeyPath, str] = field(default_factory=dict)
    """The reason of each value, by path."""
    omitted: list[str] = field(default_factory=list)
    """Keys of an older file that were not taken over, each with the reason."""

    def put(self, path: str | KeyPath, value: Any, why: str) -> None:
        """Set a value with its reason `why`, and create the tables on its path."""
        *parents, last = _parts(path)
        node: Any = self.table
        for part, following in pairwise([*parents, last]):
            if isinstance(part, int):
                node = node[part]
            else:
                container = list if isinstance(following, int) else dict
                if not isinstance(node.get(part), container):
                    node[part] = container()  # an older file may have a value of any type here
                node = node[part]
        node[last] = copy.deepcopy(value)
        self.reasons[_parts(path)] = why

    def get(self, path: str | KeyPath) -> Any:
        """Return the value at a path, or None."""
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
        """Set several values, nested or under dotted keys. Tables are merged with the present ones, not replaced.

        Raises BadInput for a path through an array of tables, such as the sources.
        """
        for path, value in flat_values(settings):
            present = self.get(path)
            if isinstance(value, Mapping) and isinstance(present, Mapping):
                continue  # an empty table changes nothing if the table exists
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
    """Yield the path and value of every value and every empty table in nested or dotted settings.

    A dot in a key separates the keys of nested tables. Keys below `_FREE_KEYS`, such as names of variables, may contain
    dots.
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
    """The origin of a config, for the comments at the head of its file."""

    name: str
    version: int
    created: date
    target: ConfigTarget
    environments: tuple[str, ...]
    based_on: str | None = None
    notes: str | None = None
    earlier: tuple[str, ...] = ()
    """Lines about the lineage that an older file stated."""


def render_draft(draft: ConfigDraft, lineage: ConfigLineage) -> str:
    """Return the TOML text of a draft with its lineage. Raises BadInput for a value that TOML cannot represent."""
    ranked = {name: index for index, name in enumerate(_TABLE_ORDER)}
    top = dict(sorted(draft.table.items(), key=lambda item: ranked.get(item[0], len(ranked))))
    lines = [*header_comments(lineage), "", *_table(top, (), draft.reasons)]
    if draft.omitted:
        lines += ["", "# Not taken over:", *(f"#   {safe_comment(line)}" for line in draft.omitted)]
    return "\n".join(lines).rstrip("\n") + "\n"


def equal_except_date(one: str, other: str) -> bool:
    """Whether two texts of configs differ at most in the date of their creation."""
    return _DATED.sub("", one) == _DATED.sub("", other)


def safe_comment(text: str) -> str:
    """Return a text as the content of a comment: printable ASCII on one line without quotes, at most 200 characters.

    The old parser of `prime train` misreads some other comments.
    """
    printable = "".join(c if " " <= c <= "~" and c not in "\"'" else " " for c in text)
    return re.sub(r" +", " ", printable).strip()[:200]


def header_comments(lineage: ConfigLineage) -> list[str]:
    """Return the comment lines at the head of a written file."""
    usage = (
        "submit it with submit_training(config=this file)"
        if lineage.target == "hosted"
        else "run it with `uv run rl @ this-file` where prime-rl and the environments are installed"
    )
    lines = [
        f"{lineage.name}: a prime-rl training config; {usage}.",
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
    """Yield the lines of a table: values first, then tables. In TOML, a value after a table's header belongs to it."""
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


_HEADER_LINE = re.compile(
    r"# (?:.*: a prime-rl training config; |target: |created: |version: |based_on: |earlier: |earlier notes: |"
    r"environments: |notes: |schema: prime-rl )"
)
_BEFORE = re.compile(r".* \(before: .*?; (.*)\)")


def edited_text(
    base_text: str, table: Mapping[str, Any], reasons: Mapping[KeyPath, str], lineage: ConfigLineage
) -> str:
    """Return the text of an older file, changed so that it has exactly the values of `table`.

    Only lines whose value differs change. A changed value gets its reason as a comment, followed by the older value
    with its comment. Raises ValueError if the text cannot be edited; the caller then writes a new text.
    """
    import tomlkit  # not needed until a config is written

    lines = base_text.splitlines(keepends=True)
    end = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    header = [line for line in lines[:end] if not _HEADER_LINE.match(line)]
    try:
        document = tomlkit.parse("".join([*header, *lines[end:]]).lstrip("\n"))
        _fit(document, table, (), reasons)
        body = tomlkit.dumps(document)
    except Exception as error:  # tomlkit raises many types of exceptions, also for rare valid layouts
        raise ValueError(f"the text cannot be edited: {error}") from error
    gap = "" if body.startswith("#") else "\n"
    return "\n".join(header_comments(lineage)) + "\n" + gap + body


def _fit(container: Any, target: Mapping[str, Any], path: KeyPath, reasons: Mapping[KeyPath, str]) -> None:
    """Change a tomlkit table so that it has the values of `target`, without changing lines whose value is the same."""
    for key in [key for key in container if key not in target]:
        del container[key]
    # Values come before tables, because in TOML a value after a table's header belongs to that table.
    for key, value in sorted(target.items(), key=lambda item: isinstance(item[1], (Mapping, list))):
        full_path = (*path, key)
        if key not in container:
            container[key] = _new_item(value, full_path, reasons)
            continue
        present = container[key]
        if isinstance(value, Mapping) and not value and isinstance(present, Mapping) and present:
            # Emptying the table `[a.b]` would also remove the table `[a]` that it implies.
            container[key] = _new_item(value, full_path, reasons)
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
        comment = match[1]  # the comment on the first value, so that a line does not grow with every change
    new_comment = why if comment in ("", why) else f"{why} (before: {before.strip()}; {comment})" if why else comment
    item.trivia.comment = f"# {new_comment}" if new_comment else ""
    item.trivia.comment_ws = "  " if new_comment else ""


def _new_item(value: Any, path: KeyPath, reasons: Mapping[KeyPath, str]) -> Any:
    """Return a value as a tomlkit item, with its reason as a comment."""
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
    unwrapped = present.unwrap() if hasattr(present, "unwrap") else present
    return type(unwrapped) is not type(value) or unwrapped != value
