"""What a row of the source dataset becomes: a question and its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared_template.columns import question, value
from shared_template.numbers import gold_of, show

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its gold as plain digits; None when it asks nothing or its gold is no number."""
    asked, found = question(row, PROMPT_COLUMNS), value(row, ANSWER_COLUMN)
    gold = None if found is None or isinstance(found, bool) else gold_of(str(found))
    return None if not asked or gold is None else {"question": asked, "answer": show(gold)}
