"""What a row of the source dataset becomes: a text and the name of its class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from classification_template.answers import LABELS, label_of
from classification_template.columns import question, value

PROMPT_COLUMNS: tuple[str, ...] = ("text",)
ANSWER_COLUMN = "label"


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its label by name; None when it asks nothing or its class is unknown, such as -1."""
    asked, found = question(row, PROMPT_COLUMNS), value(row, ANSWER_COLUMN)
    label = None if found is None or isinstance(found, list | dict) else _label(found)
    return None if not asked or label is None else {"question": asked, "answer": label}


def _label(found: Any) -> str | None:
    """The class by its name, else by its number."""
    text = str(found).strip().removesuffix(".0")
    named = label_of(text)
    if named is not None or isinstance(found, bool):
        return named
    return LABELS[int(text)] if re.fullmatch(r"\d{1,5}", text) and int(text) < len(LABELS) else None
