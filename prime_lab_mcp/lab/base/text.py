"""Makes foreign text safe to show, formats numbers for reports, and estimates token counts.

Dataset rows, completions, logs and messages of environments are data, not instructions. Reports show them only
through `quote`, which escapes control characters, shortens the text and removes credentials.
"""

from __future__ import annotations

import math
import os
import re
import unicodedata

from prime_lab_mcp.lab.base import credentials

LIMIT = 300
"""Default length limit of foreign text in a report, in characters."""

_NAMED_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)", re.I)


def clip(text: str, limit: int = LIMIT) -> str:
    """Shorten to `limit` characters and append how many characters are missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… (+{len(text) - limit} characters)"


def escape(text: str) -> str:
    """Replace control, bidirectional and zero-width characters by escapes, so that the text is displayed as it is."""
    if text.isprintable():
        return text
    return "".join(
        c
        if c == " " or not unicodedata.category(c).startswith(("C", "Zl", "Zp"))
        else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def quote(value: object, limit: int = LIMIT) -> str:
    """Return foreign text as one quoted line: escaped, shortened and without credentials."""
    text = value if isinstance(value, str) else repr(value)
    escaped = escape(clip(redact(text[: limit * 4 + 4096]), limit)).replace('"', '\\"')
    return f'"{escaped}"'


def redact(text: str) -> str:
    """Remove everything that looks like a credential, and the value of every variable with a name such as API_KEY."""
    for name, value in os.environ.items():
        if len(value) >= 8 and value in text and _NAMED_SECRET.search(name):
            text = text.replace(value, credentials.REDACTED)
    return credentials.redacted(text)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: `1 task`, `3 tasks`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def rounded(value: float | None, digits: int = 4) -> float | None:
    """Round a number for a report. None and numbers that are not finite become None."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


TOKEN_ESTIMATE_METHOD = (
    "estimated: 4 characters a token, 2 in scripts such as Cyrillic, 1 in Chinese, Japanese, Korean and the like"
)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer; for English prose within about a fifth.

    Digits, code and LaTeX take more tokens than the estimate. The script is recognised by the UTF-8 length of the
    characters.
    """
    if text.isascii():
        return -(-len(text) // 4)
    narrow = len(text.encode("ascii", "ignore"))
    total = len(text.encode("utf-8", "replace"))
    wide = max(0, total - narrow - 2 * (len(text) - narrow))
    middle = max(0, len(text) - narrow - wide)
    return -(-narrow // 4) + -(-middle // 2) + wide
