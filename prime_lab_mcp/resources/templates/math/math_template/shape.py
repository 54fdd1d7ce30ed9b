"""What a row of the source dataset becomes: a problem and its answer, without the working."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from math_template.answers import gold_of
from math_template.boxes import boxes
from math_template.columns import question, value

PROMPT_COLUMNS: tuple[str, ...] = ("problem",)
ANSWER_COLUMN = "answer"
IN_A_BOX = False
"""True where the answers are solutions that end in a box; those without a box (proofs) are left out."""


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with what stands in the last box of its solution; None when it asks nothing or has no answer."""
    asked, found = question(row, PROMPT_COLUMNS), value(row, ANSWER_COLUMN)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if not asked or found is None or isinstance(found, list | dict):
        return None
    if IN_A_BOX and not any(content.strip() for content in boxes(str(found)) or ()):
        return None
    gold = gold_of({"answer": found})
    return None if gold is None else {"question": asked, "answer": gold}
