"""What a row of the source dataset becomes: a question and whether the answer is yes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boolean_template.answers import gold_of
from boolean_template.columns import question, value

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its answer as `yes` or `no`, whatever the dataset calls them; None when it is neither."""
    asked, found = question(row, PROMPT_COLUMNS), value(row, ANSWER_COLUMN)
    gold = None if found is None else gold_of({"answer": found})
    return None if not asked or gold is None else {"question": asked, "answer": gold}
