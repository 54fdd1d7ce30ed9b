"""Replies of a scripted model that copy a piece of the environment's messages.

A script with `copy` (scripted_rollouts.py) plays its turns first. After them, each reply is the piece that `piece`
returns for the last message, between the texts `before` and `after` of the script. If the message has no such piece,
the model repeats its last turn.

`copy` may also be a place: `{"of": "prompt" or "messages", "behind": TEXT, "until": TEXT}`. The piece is then what
stands there in the user's prompt, or in all messages that the environment has written since the model's first turn.

`copy` may also be a form: `{"form": [BEFORE, AFTER], "which": WHICH}`. The piece is then a text between BEFORE and
AFTER in what the model has read: with `last`, the last one; with `first`, the first one of the latest message that has
one; with `next`, the one of the user's prompt with the number of the model's turn.
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


Which = Literal["last", "first", "next"]
_LONGEST_FORM = 200


def in_form(before: str, after: str, text: str) -> list[str]:
    """Return the texts between `before` and `after`, without both."""
    pattern = rf"{re.escape(before)}([^\n]{{1,{_LONGEST_FORM}}}?){re.escape(after)}"
    return [match.strip() for match in re.findall(pattern, text)]


def read_in_form(form: list[str], which: Which, messages: list[dict[str, Any]]) -> str:
    """Return the text of this form that a model copies from what it has read; empty if there is none."""
    before, after = form
    turns = sum(m["role"] == "assistant" for m in messages)
    if which == "next":
        stated = in_form(before, after, place_text("prompt", messages))
        return stated[turns] if turns < len(stated) else ""
    read = [in_form(before, after, str(m["content"] or "")) for m in messages if m["role"] in ("user", "tool")]
    stated = next((found for found in reversed(read) if found), [])
    return (stated[-1] if which == "last" else stated[0]) if stated else ""


NUMBER = "number"
"""The value of `until` for a piece that is the number behind the text."""


def behind(text: str, before: str, until: str) -> str:
    """Return the piece of a text behind the first `before`, up to `until` or the end of the line; empty without one.

    An empty `before` is the beginning of the text. An `until` with a line end stands at the end of the line.
    """
    start = text.find(before)
    if start < 0:
        return ""
    rest = text[start + len(before) :]
    if until == NUMBER:
        number = _PATTERNS["number"].match(rest)
        return number[0] if number is not None else ""
    line = rest.partition("\n")[0]
    if until.endswith("\n"):
        return line.removesuffix(until[:-1]).strip()
    return (line.partition(until)[0] if until else line).strip()


def place_text(of: str, messages: list[dict[str, Any]]) -> str:
    """Return the text in which a place lies: the prompt of the user, or what the environment has written since."""
    turns = [n for n, m in enumerate(messages) if m["role"] == "assistant"]
    first = turns[0] if turns else len(messages)
    chosen = messages[:first] if of == "prompt" else messages[first:]
    roles = ("user",) if of == "prompt" else ("user", "tool")
    return "\n".join(str(m["content"] or "") for m in chosen if m["role"] in roles)


def copied(script: dict[str, Any], messages: list[dict[str, Any]]) -> str:
    """Return the piece that the script copies from the messages so far; empty if there is none."""
    kind = script["copy"]
    if isinstance(kind, dict) and "form" in kind:
        return read_in_form(kind["form"], kind["which"], messages)
    if isinstance(kind, dict):
        return behind(place_text(kind["of"], messages), kind["behind"], kind["until"])
    contents = [str(m["content"] or "") for m in messages if m["role"] != "assistant"]
    return piece(kind, contents[-1]) if contents else ""


def reply(script: dict[str, Any], messages: list[dict[str, Any]]) -> str | None:
    """Return the reply that copies from the environment's messages; None if there is nothing to copy."""
    text = copied(script, messages)
    return f"{script.get('before', '')}{text}{script.get('after', '')}" if text else None
