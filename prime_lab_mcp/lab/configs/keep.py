"""A config that a person has worked on is edited and not written anew: comments and order stay where they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.configs.draft import KeyPath, Lineage, header, plain

_OURS = re.compile(
    r"# (?:.*: a prime-rl training config; |target: |created: |version: |based_on: |earlier: |earlier notes: |"
    r"environments: |notes: |schema: prime-rl )"
)
_BEFORE = re.compile(r".* \(before: .*?; (.*)\)")


def edited(base_text: str, table: Mapping[str, Any], reasons: Mapping[KeyPath, str], lineage: Lineage) -> str:
    """The text of a file with exactly the values of `table`; only lines whose value differs are touched.

    Raises ValueError where the text cannot be edited to hold that table (the caller then writes it anew). A changed
    value gets its reason behind it; what stood there is kept as what was said of the value before.
    """
    import tomlkit  # not needed until a config is written

    lines = base_text.splitlines(keepends=True)
    end = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    kept = [line for line in lines[:end] if not _OURS.match(line)]
    try:
        document = tomlkit.parse("".join([*kept, *lines[end:]]).lstrip("\n"))
        _fit(document, table, (), reasons)
        body = tomlkit.dumps(document)
    except Exception as error:  # tomlkit has many kinds of its own, and stumbles over rare layouts
        raise ValueError(f"the text cannot be edited: {error}") from error
    gap = "" if body.startswith("#") else "\n"
    return "\n".join(header(lineage)) + "\n" + gap + body


def _fit(container: Any, wanted: Mapping[str, Any], path: KeyPath, reasons: Mapping[KeyPath, str]) -> None:
    """Make a tomlkit table hold what is wanted, its other lines untouched."""
    for key in [key for key in container if key not in wanted]:
        del container[key]
    # Values before tables: in TOML a value after a header belongs to that header.
    for key, value in sorted(wanted.items(), key=lambda item: isinstance(item[1], (Mapping, list))):
        here = (*path, key)
        if key not in container:
            container[key] = _made(value, here, reasons)
            continue
        present = container[key]
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            _fit(present, value, here, reasons)
        elif _tables(value) and _tables(present) and len(value) == len(present):
            for index, entry in enumerate(value):
                _fit(present[index], entry, (*here, index), reasons)
        elif _differs(present, value):
            _replace(container, key, value, reasons.get(here, ""))


def _replace(container: Any, key: str, value: Any, why: str) -> None:
    old = container[key]
    said = str(getattr(getattr(old, "trivia", None), "comment", "")).lstrip("# ").strip()
    before = getattr(old, "as_string", lambda: str(old))()
    container[key] = value
    item = container[key]
    if _tables(value) or isinstance(value, Mapping) or not hasattr(item, "trivia"):
        return
    why = plain(why)
    if found := _BEFORE.fullmatch(said):
        said = found[1]  # of the first value, so that a line does not grow with every change
    told = why if said in ("", why) else f"{why} (before: {before.strip()}; {said})" if why else said
    item.trivia.comment = f"# {told}" if told else ""
    item.trivia.comment_ws = "  " if told else ""


def _made(value: Any, path: KeyPath, reasons: Mapping[KeyPath, str]) -> Any:
    """A new value with its reasons behind it."""
    import tomlkit
    from tomlkit.items import AoT

    if isinstance(value, Mapping):
        table = tomlkit.table()
        for key, inner in sorted(value.items(), key=lambda item: isinstance(item[1], Mapping) or _tables(item[1])):
            table.add(key, _made(inner, (*path, key), reasons))
        return table
    if _tables(value):
        return AoT([_made(entry, (*path, index), reasons) for index, entry in enumerate(value)])
    item = tomlkit.item(value)
    if why := plain(reasons.get(path, "")):
        item.comment(why)
        item.trivia.comment_ws = "  "
    return item


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _differs(present: Any, value: Any) -> bool:
    plain_value = present.unwrap() if hasattr(present, "unwrap") else present
    return type(plain_value) is not type(value) or plain_value != value
