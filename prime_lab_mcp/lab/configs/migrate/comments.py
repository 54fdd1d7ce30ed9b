"""What a person wrote behind the values of an older file, so that it travels with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prime_lab_mcp.lab.configs.migrate.rows import dotted


def remarks(text: str, table: Any) -> dict[str, str]:
    """Dotted key to the comment behind its value. Comments on lines of their own stay in the older file."""
    import tomlkit  # not needed until a config is written

    try:
        document = tomlkit.parse(text)
    except Exception:  # tomllib has read it; tomlkit need not agree on every corner
        return {}
    found = {}
    for path, item in _items(document, ()):
        said = str(getattr(getattr(item, "trivia", None), "comment", "")).lstrip("# ").strip()
        if said:
            found[dotted(path, table)] = said
    return found


def _items(container: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    from tomlkit.items import AoT, InlineTable, Table

    for key in list(container):
        item = container.item(key) if hasattr(container, "item") else container[key]
        here = (*path, str(key))
        if isinstance(item, AoT):
            for index, entry in enumerate(item):
                yield from _items(entry, (*here, index))
        elif isinstance(item, Table) or (hasattr(item, "keys") and not isinstance(item, InlineTable)):
            yield from _items(item, here)
        else:
            yield here, item
