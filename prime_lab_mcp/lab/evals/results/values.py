"""What single fields of a record hold, whatever wrote them: numbers, and the text of messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def said(completion: Any) -> str:
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, list):
        return ""
    messages = [m for m in completion if isinstance(m, Mapping)]
    mine = [m for m in messages if m.get("role") == "assistant"] or messages
    return "\n".join(text for m in mine if (text := text_of(m.get("content"))))


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, Mapping))
    return ""


def number(value: Any) -> float | None:
    """A finite number, else None; `True` is 1.0."""
    if not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0
