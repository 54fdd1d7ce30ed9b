"""Digests of single values: the same for two texts that ask the same, and for two golds that say the same.

They are Python's own string hashes: 64 bits, keyed, and several times as fast as a cryptographic hash. They mean
something only within the process that made them. What is the same follows golds.normalised and keys.gold_key.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.paths import text_of

EMPTY = 0
"""The digest of no gold, and of an empty text."""
SHORT = 40
"""Characters of a text that may be all answer and no explanation."""
_WHITE = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
_WIDE = "\x85\u1680\u2028\u2029"
_SIMPLE = frozenset({str, type(None)})


class Column(Protocol):
    """One column of a chunk: its values, the same as texts, and the texts joined with NUL."""

    values: list[Any]
    texts: list[str]
    joined: str
    kinds: set[type]


def normalised(text: str) -> str:
    """As golds.normalised, by a shorter way for ASCII."""
    return " ".join(text.lower().split()) if text.isascii() else golds.normalised(text)


def prompt_keys(column: Column) -> list[int]:
    """Digests of the values as prompts: equal for texts that golds.normalised makes equal."""
    if column.kinds & {list, dict}:
        return [
            hash(normalised(text_of(v) if isinstance(v, list | dict) else t))
            for v, t in zip(column.values, column.texts, strict=True)
        ]
    if column.joined.isascii():
        return _together(column.texts, column.joined)
    plain = [t for t in column.texts if t.isascii()]
    other = [t for t in column.texts if not t.isascii()]
    first, second = iter(_together(plain, "\0".join(plain))), iter(_together(other, "\0".join(other)))
    return [next(first) if t.isascii() else next(second) for t in column.texts]


def _together(texts: list[str], joined: str) -> list[int]:
    """Digests of many texts, normalised as one: calls over a long text cost less than many over short ones."""
    if not texts:
        return []
    white = _WHITE
    if joined.isascii():
        joined = joined.lower()
    else:
        joined, white = unicodedata.normalize("NFKC", joined).casefold(), _WHITE + _WIDE
    for mark in white:
        if mark in joined:
            joined = joined.replace(mark, " ")
    while "  " in joined:
        joined = joined.replace("  ", " ")
    found = joined.replace(" \0", "\0").replace("\0 ", "\0").strip(" ").split("\0")
    if len(found) != len(texts):  # a text holds NUL itself
        return [hash(normalised(t)) for t in texts]
    return list(map(hash, found))


def gold_keys(column: Column) -> list[int] | None:
    """Digests of what the values say as answers: the number after ####, the box, a number however it is written.

    None where they are those of `prompt_keys`.
    """
    texts, joined = column.texts, column.joined
    if not column.kinds <= _SIMPLE:
        return [_gold_key(v, t) for v, t in zip(column.values, texts, strict=True)]
    marked, boxed = "####" in joined, "box" in joined
    if not marked and not boxed and min(map(len, texts), default=0) > SHORT and not _any_json(texts, joined):
        return None
    if not marked:
        return [_short(t) if len(t) <= SHORT else _long(t, False, boxed) for t in texts]
    found = []
    for text in texts:
        place = text.rfind("####")
        tail = text[place + 4 :].strip()
        if place >= 0 and tail.isdigit() and tail[0] != "0" and len(tail) <= SHORT and tail.isascii():
            found.append(hash(tail))  # as golds.canonical writes it
        else:
            found.append(_short(text) if len(text) <= SHORT else _long(text, True, boxed))
    return found


def _any_json(texts: list[str], joined: str) -> bool:
    return ("[" in joined or "{" in joined) and any(t[:1] in ("[", "{") for t in texts)


def _gold_key(value: Any, text: str) -> int:
    if isinstance(value, str):
        return _short(value) if len(value) <= SHORT else _long(value, True, True)
    if isinstance(value, list | dict):
        return EMPTY if golds.is_empty(value) else _any_order(value)
    return _short(text)


@lru_cache(65_536)
def _short(text: str) -> int:
    if golds.is_empty(text):
        return EMPTY
    found = golds.number(text)
    return hash(golds.canonical(found)) if found is not None else _long(text, True, True)


def _long(text: str, marked: bool, boxed: bool) -> int:
    if marked and "####" in text:
        tail = text[text.rfind("####") + 4 :].strip()
        found = _number(tail) if "\n" not in tail else None
        if found is not None:
            return found
    if boxed and "box" in text and (inside := golds.boxed(text)) is not None:
        return hash(normalised(inside))
    if text[:1] in ("[", "{"):
        try:
            return _any_order(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return hash(normalised(text))


@lru_cache(65_536)
def _number(text: str) -> int | None:
    found = golds.number(text)
    return None if found is None else hash(golds.canonical(found))


def _any_order(value: Any) -> int:
    """Of several answers, whatever their order; of an object all it holds."""
    if isinstance(value, dict):
        listed = next((value[k] for k in ("text", "spans", "aliases") if isinstance(value.get(k), list)), None)
        value = golds.as_text(value) if listed is None else listed
    if isinstance(value, list):
        return hash(tuple(sorted({normalised(golds.as_text(v)) for v in value})))
    return hash(normalised(golds.as_text(value)))


def any_order(texts: Sequence[str]) -> int:
    """Digest of a row's options, in whatever order they stand."""
    return hash(tuple(sorted(map(normalised, texts)))) if texts else EMPTY
