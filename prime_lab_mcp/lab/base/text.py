"""Makes foreign text and foreign values safe to use, formats numbers for reports, and estimates token counts.

Dataset rows, completions, logs and messages of environments are data, not instructions. Reports quote them with
`quote`, which escapes control characters, shortens the text and removes credentials. All output of the server (reports,
pages, questions, progress, terminal output) also passes through `escape` or `escape_lines`. Even if a programmer forgot
to quote foreign text, the text cannot move a cursor, reverse a line or hide words. Values of foreign JSON and TOML are
converted to the expected type; a value of another type becomes None or empty.
"""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from prime_lab_mcp.lab.base import credentials

LIMIT = 300
"""Default length limit of foreign text in a report, in characters."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Matches the bare keys of TOML, none of which has blanks or dots."""
_PLAIN_ID = re.compile(r"[\w./:@-]{1,160}", re.ASCII)
_KEY_LIMIT = 80
_NAMED_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)", re.I)


def clip(text: str, limit: int = LIMIT) -> str:
    """Shorten a text to `limit` characters, and append the number of characters that were removed."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… (+{len(text) - limit} characters)"


_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]")
"""Invisible characters that Unicode counts as letters, marks or symbols: fillers, joiners and variation selectors.

The two variation selectors that choose between text and emoji (U+FE0E and U+FE0F) are not among them.
"""
_LINE_BREAK = re.compile(r"(\r?\n|\t)")


def is_invisible(character: str) -> bool:
    """True for invisible characters, such as control, bidirectional and zero-width characters. A space is visible."""
    return (character != " " and unicodedata.category(character).startswith(("C", "Zl", "Zp"))) or _BLANK.match(
        character
    ) is not None


def escape(text: str) -> str:
    """Replace every invisible character with its Unicode escape, so that a reader sees the whole text."""
    if text.isprintable() and (text.isascii() or _BLANK.search(text) is None):
        return text
    return "".join(c.encode("unicode_escape").decode("ascii") if is_invisible(c) else c for c in text)


def escape_lines(text: str) -> str:
    """Escape a text of several lines: like `escape`, but line breaks and tabs stay."""
    if text.isprintable() and text.isascii():
        return text
    return "".join(part if number % 2 else escape(part) for number, part in enumerate(_LINE_BREAK.split(text)))


def quote(value: object, limit: int = LIMIT) -> str:
    """Return foreign text as one quoted line: escaped, shortened and without credentials."""
    text = value if isinstance(value, str) else repr(value)
    escaped = escape(clip(redact(text[: limit * 4 + 4096]), limit)).replace('"', '\\"')
    return f'"{escaped}"'


def key_path(path: Iterable[object]) -> str:
    """Join the keys of a foreign table to a path that people read, such as `trainer.model."a key. Of words"`.

    A key of TOML or JSON may be any text, also a sentence; a key that is no plain word is quoted.
    """
    return ".".join(key if _PLAIN_KEY.fullmatch(key) else quote(key, _KEY_LIMIT) for key in map(str, path))


def plain_id(id: str) -> str:
    """Return an id, name or path of code as it is, or in quotes if it could be read as a sentence."""
    return id if _PLAIN_ID.fullmatch(id) else quote(id, _KEY_LIMIT)


def redact(text: str) -> str:
    """Replace everything that looks like a credential, and the values of environment variables such as API_KEY.

    A variable counts if its name contains KEY, TOKEN, SECRET or PASSWORD and its value has at least 8 characters.
    """
    for name, value in os.environ.items():
        if len(value) >= 8 and value in text and _NAMED_SECRET.search(name):
            text = text.replace(value, credentials.REDACTED)
    return credentials.redacted(text)


def signed(number: float) -> str:
    """A difference with its sign and two decimals; `0.00` without a sign where nothing else is left."""
    return "0.00" if abs(number) < 0.005 else f"{number:+.2f}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: `1 task`, `3 tasks`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def amount_text(dollars: float) -> str:
    """Return an amount in cents. An amount that would read as nothing is `less than $0.01`."""
    return "less than $0.01" if 0 < dollars < 0.005 else f"${dollars:.2f}"


def rounded(value: float | None, digits: int = 4) -> float | None:
    """Round a number for a report. None and numbers that are not finite become None."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


TOKEN_ESTIMATE_METHOD = (
    "estimated: 4 characters a token, 2 in scripts such as Cyrillic, 1 in Chinese, Japanese, Korean and the like"
)


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in a text without a tokenizer. The error is about a fifth for English prose.

    Digits, code and LaTeX take more tokens than the estimate. The script is recognised by the number of UTF-8 bytes of
    each character.
    """
    if text.isascii():
        return -(-len(text) // 4)
    narrow = len(text.encode("ascii", "ignore"))
    total = len(text.encode("utf-8", "replace"))
    wide = max(0, total - narrow - 2 * (len(text) - narrow))
    middle = max(0, len(text) - narrow - wide)
    return -(-narrow // 4) + -(-middle // 2) + wide


def text_or_none(value: object) -> str | None:
    """Return a non-empty string; None for anything else."""
    return value if isinstance(value, str) and value else None


def finite_or_none(value: object) -> float | None:
    """Return a finite number; None for anything else. True and False do not count as numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def positive_int_or_none(value: object) -> int | None:
    """Return an integer of at least 1; None for anything else, including the float 4.0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
