"""What a row of the source dataset becomes: a question, its answer, and the files of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxed_template.answers import gold_of
from sandboxed_template.columns import question, value

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"
FILES_COLUMN = "files"
"""A mapping of names to texts; rows without one ask about no file."""


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its gold as one line of text; None when it asks nothing or has no short answer."""
    asked, found = question(row, PROMPT_COLUMNS), value(row, ANSWER_COLUMN)
    plain = isinstance(found, str | int | float) and not isinstance(found, bool)
    gold = gold_of({"answer": found}) if plain else None
    if not asked or gold is None:
        return None
    files = value(row, FILES_COLUMN)
    named = {str(name): str(text) for name, text in files.items()} if isinstance(files, Mapping) else {}
    return {"question": asked, "answer": gold, **({"files": named} if named else {})}
