"""Values at dotted paths of a row, and names of columns as they are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from prime_lab_mcp.lab.datasets import chat, golds

Row = Mapping[str, Any]
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_GAP = re.compile(r"[\s\-/]+")


def pluck(row: Row, path: str) -> Any:
    """The value at a column name, or inside of it (`answers.text`, `a.b.c`); None when nothing is there."""
    if path in row:
        return row[path]
    head, _, rest = path.partition(".")
    inner = row.get(head)
    return pluck(inner, rest) if rest and isinstance(inner, Mapping) else None


@lru_cache(4096)
def snake(name: str) -> str:
    """`answerKey`, `Answer Key` and `answer-key` as `answer_key`."""
    return _GAP.sub("_", _HUMP.sub("_", name.strip())).lower()


def text_of(value: Any) -> str:
    """A value as part of a prompt: of a conversation the turns before its last reply, of a list its texts."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        found = chat.messages(value)
        if found is not None:
            return chat.asked(found)
        if all(isinstance(v, str | list) for v in value):
            return "\n\n".join(v.strip() if isinstance(v, str) else " ".join(str(p).strip() for p in v) for v in value)
    return golds.as_text(value)


def compose(row: Row, columns: tuple[str, ...] | list[str]) -> str:
    """The prompt of a row as one text: its columns in order, each a paragraph."""
    if len(columns) == 1:
        return text_of(pluck(row, columns[0])).strip()
    return "\n\n".join(text for name in columns if (text := text_of(pluck(row, name)).strip()))
