"""What single fields of a record hold, whatever wrote them: numbers, names, and the text of messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NOT_SCORED = "it was not scored"


def said(completion: Any) -> str:
    """What the assistant said in a list of messages, or a completion that is text."""
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, list):
        return ""
    messages = [m for m in completion if isinstance(m, dict)]
    mine = [m for m in messages if m.get("role") == "assistant"] or messages
    return "\n".join(text for m in mine if (text := text_of(m.get("content"))))


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text") or "") for p in content if isinstance(p, dict))
    return ""


def number(value: Any) -> float | None:
    """A finite number, else None; `True` is 1.0."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def whole(value: Any) -> int:
    """A count; 0 for what is none."""
    found = number(value)
    return int(found) if found is not None else 0


def numbers(values: Any) -> dict[str, float]:
    """The finite numbers of a mapping."""
    if not isinstance(values, dict):
        return {}
    return {str(k): n for k, v in values.items() if (n := number(v)) is not None}


def is_number(value: Any) -> bool:
    """Whether it is a number at all, NaN and infinity included."""
    return isinstance(value, int | float)


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def name(value: Any) -> str:
    """A name or version as text; empty for what is none."""
    return value if isinstance(value, str) else ""
