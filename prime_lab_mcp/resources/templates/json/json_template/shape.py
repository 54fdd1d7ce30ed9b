"""What a row of the source dataset becomes: a task and its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from json_template.answers import gold_of
from json_template.columns import question, value

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its gold as JSON text; None when it asks nothing or its gold is no object or list."""
    asked, gold = question(row, PROMPT_COLUMNS), gold_of({"answer": value(row, ANSWER_COLUMN)})
    return None if not asked or gold is None else {"question": asked, "answer": gold}
