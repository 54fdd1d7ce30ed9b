"""What a boxed answer is worth: the gold in any form, but not an expression that the problem itself shows.

Two expressions can be equal although only one is an answer: "Expand $(x+1)(x+2)$" is not answered by the product again.
So what is copied from the problem counts only where it is the gold letter by letter.
"""

from __future__ import annotations

import re

from competition_math.boxes import boxed, boxes
from competition_math.equality import same
from competition_math.latex import key, tidy
from competition_math.symbolic import GaveUp

FORMAT = "Then give the final answer, and nothing else, in a box: \\boxed{ANSWER}"
LONGEST = 400
"""Characters of an answer."""
_SHOWN = re.compile(r"\$([^$]+)\$|\\\(([^)]+)\\\)|\\\[(.+?)\\\]", re.S)
_SIDES = re.compile(r"(?<![<>!])=")


def gold_of(solution: str) -> str | None:
    """The content of the last box; None when there is none."""
    found = [content.strip() for content in boxes(solution) or () if content.strip()]
    return found[-1] if found and len(found[-1]) <= LONGEST else None


def given(reply: str) -> str | None:
    """The one boxed answer of a reply; several boxes must hold the same."""
    found = boxed(reply) or []
    if not found or any(len(content) > LONGEST for content in found):
        return None
    spellings = {key(tidy(content)) for content in found}
    return found[-1] if len(spellings) == 1 and spellings != {""} else None


def copied(answer: str, problem: str) -> bool:
    """The answer is an expression that stands in the problem, numbers and single letters aside."""
    spelling = key(tidy(answer))
    return len(spelling) > 2 and re.search(r"[A-Za-z+*/^(]", spelling) is not None and spelling in _expressions(problem)


def _expressions(problem: str) -> set[str]:
    """Every formula of the problem, and the sides of its equations."""
    found = {group for match in _SHOWN.findall(problem) for group in match if group}
    return {key(tidy(side)) for formula in found for side in (formula, *_SIDES.split(formula))}


def right(reply: str, gold: str, problem: str) -> bool:
    """The reply's answer is the gold. May take seconds: call it in a thread."""
    answer = given(reply)
    if answer is None:
        return False
    if copied(answer, problem) and key(tidy(answer)) != key(tidy(gold)):
        return False
    try:
        return same(gold, answer)
    except GaveUp:
        return False
