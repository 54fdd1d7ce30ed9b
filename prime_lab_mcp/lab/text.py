"""Foreign text made safe to show: quoted, cut, control characters escaped, secrets removed.

Rows of datasets, completions, logs and messages of environments are data. They are shown only through `quote`.
"""

from __future__ import annotations

import math
import os
import re
import unicodedata

LIMIT = 300
"""Characters of foreign text shown in a report (DESIGN section 3)."""

_SECRET = re.compile(
    r"(?i)\b(?:sk-[A-Za-z0-9_-]{8,}|hf_[A-Za-z0-9]{8,}|pit_[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,})"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=-]{6,}"
    r"|(?<=api_key=)[^\s&\"']{4,}"
)
_MARKS = (
    "sk-", "hf_", "pit_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "bearer ", "api_key=",
)  # fmt: skip
"""One of these is in every text that `_SECRET` finds something in: looking for them is a hundred times as fast."""
_NAMED_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)", re.I)


def clip(text: str, limit: int = LIMIT) -> str:
    """At most `limit` characters, the cut marked with how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… (+{len(text) - limit} characters)"


def escape(text: str) -> str:
    """Control, bidirectional and zero-width characters as escapes, so text cannot act on its reader."""
    if text.isprintable():
        return text
    return "".join(
        c
        if c == " " or not unicodedata.category(c).startswith(("C", "Zl", "Zp"))
        else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def quote(value: object, limit: int = LIMIT) -> str:
    """Foreign text as one quoted, escaped, cut, secret-free line."""
    text = value if isinstance(value, str) else repr(value)
    shown = escape(clip(redact(text[: limit * 4 + 4096]), limit)).replace('"', '\\"')
    return f'"{shown}"'


def redact(text: str) -> str:
    """Text without anything that looks like a credential, nor any value of a secret-named variable."""
    for name, value in os.environ.items():
        if len(value) >= 8 and value in text and _NAMED_SECRET.search(name):
            text = text.replace(value, "[redacted]")
    small = text.lower()
    if text.isascii() and not any(mark in small for mark in _MARKS):
        return text
    return _SECRET.sub("[redacted]", text)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 task`, `3 tasks`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def rounded(value: float | None, digits: int = 4) -> float | None:
    """A number for a report; None for what is no finite number."""
    return None if value is None or not math.isfinite(value) else round(value, digits)
