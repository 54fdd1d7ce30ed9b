"""What a row of the source dataset becomes: a question and the answer that others are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from free_text_template.columns import question, value
from free_text_template.replies import can_be_tagged
from free_text_template.rules import LONGEST

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its reference; None when it asks nothing, or its reference is no text that can stand in tags."""
    asked, found = question(row, PROMPT_COLUMNS), _reference(value(row, ANSWER_COLUMN))
    said = any(sign.isalnum() for sign in found) and len(found) <= LONGEST and can_be_tagged(found)
    return {"question": asked, "answer": found} if asked and said else None


def _reference(found: Any) -> str:
    """The text; of several texts the first, of a conversation what the assistant says last."""
    if isinstance(found, Mapping):
        return _reference(found.get("text") or found.get("value") or found.get("content"))
    if isinstance(found, list):
        turns = [
            t for t in found if isinstance(t, Mapping) and (t.get("role") or t.get("from")) in ("assistant", "gpt")
        ]
        return _reference(turns[-1] if turns else next(iter(found), None))
    return found.strip() if isinstance(found, str) else ""
