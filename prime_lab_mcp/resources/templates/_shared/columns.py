"""Values and texts out of a row of the source dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def value(row: Mapping[str, Any], path: str) -> Any:
    """What stands at a column name, or inside of it (`answer.value`); None when nothing does."""
    if path in row:
        return row[path]
    head, _, rest = path.partition(".")
    inner = row.get(head)
    return value(inner, rest) if rest and isinstance(inner, Mapping) else None


def question(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The prompt columns as one text, each a paragraph of its own; of a chat, the turns before the assistant's last."""
    return "\n\n".join(text for column in columns if (text := _text(value(row, column))))


def _text(found: Any) -> str:
    if not isinstance(found, list):
        return "" if found is None else str(found).strip()
    if found and all(isinstance(part, str) for part in found):
        return "\n\n".join(part.strip() for part in found)
    if found and all(isinstance(part, list) for part in found):  # paragraphs of sentences, or turns one level deeper
        if all(isinstance(piece, str) for part in found for piece in part):
            return "\n\n".join(" ".join(piece.strip() for piece in part) for part in found)
        found = [turn for part in found for turn in part]
    turns = [turn for turn in found if isinstance(turn, Mapping)]
    while turns and _speaker(turns[-1]) in ("assistant", "gpt", "chatgpt", "model", "bot"):
        turns.pop()
    return "\n\n".join(said for turn in turns if (said := _said(turn)))


def _said(turn: Mapping[str, Any]) -> str:
    content = turn.get("content") or turn.get("value") or ""
    if isinstance(content, list):
        content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return str(content).strip()


def _speaker(turn: Mapping[str, Any]) -> str:
    return str(turn.get("role") or turn.get("from") or "").lower()
