"""What a row of the source dataset becomes: a question and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared_template.answers import gold_of
from shared_template.columns import question, value

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its gold as a reply should give it; None when it asks nothing or has no short answer."""
    asked, found = question(row, PROMPT_COLUMNS), value(row, ANSWER_COLUMN)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    plain = isinstance(found, str | int | float) and not isinstance(found, bool)
    gold = gold_of({"answer": found}) if plain else None
    return None if not asked or gold is None else {"question": asked, "answer": gold}
