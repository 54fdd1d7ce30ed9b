"""Fenced code of a reference page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PAGES = Path(__file__).parents[2] / "prime_lab_mcp" / "resources" / "references"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_FILE = re.compile(r"# (environments/\S+)(?: \((\w+)\))?\n")


def page(topic: str) -> str:
    """The text of a page."""
    return (PAGES / f"{topic}.md").read_text(encoding="utf-8")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, code) of every fenced block."""
    yield from ((found[1], found[2]) for found in _FENCE.finditer(text))


def files(text: str, version: str | None = None) -> dict[str, str]:
    """Path -> code of the blocks whose first line names a file; `version`: only those marked with it."""
    found = {}
    for _, code in blocks(text):
        head = _FILE.match(code)
        if head is not None and head[2] == version:
            found[head[1]] = code[head.end() :]
    return found
