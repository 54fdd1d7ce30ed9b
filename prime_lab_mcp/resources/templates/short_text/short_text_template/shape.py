"""What a row of the source dataset becomes: a question and its answer, or answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from short_text_template.answers import ANY_OF, gold_of
from short_text_template.columns import question, value

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"
_LISTS = ("text", "spans", "aliases", "normalized_aliases")
"""Where SQuAD, DROP and TriviaQA keep the answers of an answer object."""
_BESIDE = ("answer_aliases", "answer_alias", "aliases")
"""Columns with other spellings of the answer."""


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its answer, or all its answers; None when it asks nothing or has no answer that is a short text."""
    asked, found = question(row, PROMPT_COLUMNS), value(row, ANSWER_COLUMN)
    parent = row.get(ANSWER_COLUMN.rpartition(".")[0])
    beside = [parent if isinstance(parent, Mapping) else None, *(row.get(name) for name in _BESIDE)] if ANY_OF else []
    texts = [text for place in (found, *beside) for text in _answers(place)]
    several = len(texts) > 1 or not isinstance(found, str | int | float) or any(b is not None for b in beside)
    gold = gold_of({"answer": texts if several else texts[0] if texts else None})
    return None if not asked or gold is None else {"question": asked, "answer": gold}


def _answers(found: Any) -> list[str]:
    """The texts of an answer: one text, a list of them (also as JSON text), or an object that holds either."""
    if isinstance(found, Mapping):
        inner = [found["value"]] if isinstance(found.get("value"), str) else []
        return [*inner, *(text for name in _LISTS for text in _answers(found.get(name)))]
    if isinstance(found, str) and found.startswith('["') and found.endswith('"]'):
        try:
            found = json.loads(found)
        except ValueError:
            return [found]
    if isinstance(found, list | tuple):
        return [text for item in found for text in _answers(item)]
    if found is None or isinstance(found, bool):
        return []
    return [str(found)]
