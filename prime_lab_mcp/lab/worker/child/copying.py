"""Replies of a scripted model that copy a piece of the environment's last message.

A script with `copy` (scripted_rollouts.py) plays its turns first. After them, each reply is the piece that `piece`
returns for the last message, between the texts `before` and `after` of the script. If the message has no such piece,
the model repeats its last turn.
"""

from __future__ import annotations

import re
from typing import Any, Literal

Piece = Literal["message", "line", "tag", "quoted", "number", "word"]
PIECES: tuple[Piece, ...] = ("message", "line", "tag", "quoted", "number", "word")
WHOLE: frozenset[Piece] = frozenset({"message", "line", "tag"})
"""Pieces that may already have the format of an answer, so that they are copied without additions."""
_PATTERNS: dict[Piece, re.Pattern[str]] = {
    "line": re.compile(r"[^\n]*\S[^\n]*"),
    "tag": re.compile(r"<([A-Za-z_][\w-]{0,30})>[^<]*</\1>"),
    "quoted": re.compile(r"[\"“«`]([^\"“”«»`\n]{1,200})[\"”»`]|(?<!\w)'([^'\n]{1,200})'(?!\w)"),
    "number": re.compile(r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*"),
    "word": re.compile(r"[^\W\d_]{2,}"),
}


def piece(kind: Piece, message: str) -> str:
    """Return the last piece of this kind in a message; an empty string if there is none."""
    if kind == "message":
        return message.strip()
    matches = list(_PATTERNS[kind].finditer(message))
    if not matches:
        return ""
    last = matches[-1]
    return (next((g for g in last.groups() if g), "") if kind == "quoted" else last[0]).strip()


def reply(script: dict[str, Any], messages: list[dict[str, Any]]) -> str | None:
    """Return the reply that copies from the environment's last message; None if there is nothing to copy."""
    contents = [str(m["content"] or "") for m in messages if m["role"] != "assistant"]
    copied = piece(script["copy"], contents[-1]) if contents else ""
    return f"{script.get('before', '')}{copied}{script.get('after', '')}" if copied else None
