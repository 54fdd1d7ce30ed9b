"""What a row of the source dataset becomes: a question, its options in their order, and the letter of the right one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from choice_template.columns import question, value
from choice_template.options import LETTERS, Offered, offered, spread

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"
OPTION_COLUMNS: tuple[str, ...] = ("options",)
"""One column with all options, one column each, or none when they stand in the question."""
INDEX_BASE: int | None = None
"""0 or 1 where the answer is the number of the right option; None where it is its letter, label or text."""
_LETTER = re.compile(r"\\boxed\{\s*([A-J])\s*\}|[(\[]?([A-Ja-j])(?:[)\].]|[).:]\s.*)?", re.S)


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its options as a list, empty where the question shows them; None when no one option is the gold."""
    asked, gold = question(row, PROMPT_COLUMNS), value(row, ANSWER_COLUMN)
    if not asked or gold is None or isinstance(gold, bool | dict):
        return None
    found = offered(row, OPTION_COLUMNS, asked)
    if found is None and OPTION_COLUMNS:
        return None
    place = _place(gold, found)
    if place is None or (found is not None and found.texts.count(found.texts[place]) > 1):
        return None
    options = list(found.texts) if found is not None and OPTION_COLUMNS else []
    if options and (isinstance(gold, list) or ANSWER_COLUMN in OPTION_COLUMNS):
        order = spread(options)  # marked, or in a column of its own, the right one has one place in all rows
        options, place = [options[n] for n in order], order.index(place)
    return {"question": asked, "options": options, "answer": LETTERS[place]}


def _place(gold: Any, found: Offered | None) -> int | None:
    """Which option the gold is, from 0. A list marks the right one among as many (TruthfulQA)."""
    number = len(found.texts) if found is not None else len(LETTERS)
    if isinstance(gold, list):
        marked = [n for n, mark in enumerate(gold) if mark in (1, True, "1")]
        return marked[0] if len(marked) == 1 and len(gold) == number else None
    text = str(gold).strip()
    if INDEX_BASE is not None:
        place = int(float(text)) - INDEX_BASE if re.fullmatch(r"\d+(?:\.0)?", text) else -1
        return place if 0 <= place < number else None
    if found is not None and text in found.labels:
        return found.labels.index(text)
    if letter := _LETTER.fullmatch(text):
        place = LETTERS.index((letter[1] or letter[2]).upper())
        if place < number:
            return place
    same = [n for n, option in enumerate(found.texts) if _plain(option) == _plain(text)] if found is not None else []
    return same[0] if len(same) == 1 else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")
