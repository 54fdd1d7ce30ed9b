"""The product database: JSON lines inside of this package, read once, looked up by keys as a shop's system would."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
SHOWN = 8
"""Products that a search names; the rest must be found with more words."""
_WORD = re.compile(r"[a-z0-9]+")


@cache
def table(name: str) -> dict[str, dict[str, Any]]:
    """The rows of `products` or `suppliers` by their id."""
    with (DATA / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return {row["id"]: row for row in map(json.loads, lines)}


def search(words: str) -> list[dict[str, Any]]:
    """Products whose name or category has all of the words."""
    wanted = set(_WORD.findall(words.casefold()))
    found = []
    for product in table("products").values():
        has = set(_WORD.findall(f"{product['name']} {product['category']}".casefold()))
        if wanted and wanted <= has:
            found.append(product)
    return found


def row(name: str, id: str) -> dict[str, Any] | None:
    """The row with this id, case aside."""
    return table(name).get(id.strip().upper())
