"""What is asked, how a reply gives its answer, and when that answer is right. Pure: no model, no environment.

Nothing the model writes is evaluated in this process: expressions go to a child that is ended when it takes too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from math_template.boxes import boxed, boxes
from math_template.equality import needs_mathematics, same
from math_template.latex import key, tidy
from math_template.symbolic import GaveUp, prepare

FORMAT = "Then give the final answer, and nothing else, in a box: \\boxed{ANSWER}"
LONGEST = 400
"""Characters of an answer. What is longer is a text, not an answer."""
_NONE = frozenset({"", "proof", "notfound", "notfound.", "n/a", "na", "nan", "none", "null", "-", "?"})


def ask(row: Mapping[str, Any]) -> str:
    """The user's message. Tasks are asked before they are answered, so this is where comparing gets ready."""
    if needs_mathematics(str(row["answer"])):
        prepare()
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The content of the last box of a solution, or the bare answer; None when there is no answer in it."""
    text = str(row["answer"]).strip()
    found = [content for content in boxes(text) or () if content.strip()]
    gold = (found[-1] if found else text).strip()
    if len(gold) > LONGEST or "\\boxed" in gold or "\\fbox" in gold:
        return None
    return None if key(tidy(gold)).casefold() in _NONE else gold


def reply_with(gold: str) -> str:
    """A reply that gives this answer in the right form, for worked examples."""
    return f"\\boxed{{{gold}}}"


def score(reply: str, gold: str) -> float:
    """1 when the boxed answer is the gold: the same text, number, list or expression. Takes at most some seconds."""
    given = _given(reply)
    if given is None:
        return 0.0
    try:
        return float(same(gold, given))
    except GaveUp:
        return 0.0


def in_form(reply: str) -> bool:
    """The reply gives one answer in a box, right or wrong."""
    return _given(reply) is not None


def _given(reply: str) -> str | None:
    """The one answer of a reply: several boxes must hold the same."""
    found = boxed(reply) or []
    if not found or any(len(content) > LONGEST for content in found):
        return None
    spellings = {key(tidy(content)) for content in found}
    return found[-1] if len(spellings) == 1 and spellings != {""} else None
