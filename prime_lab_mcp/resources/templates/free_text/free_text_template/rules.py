"""What needs no judge: answers that are plainly worth nothing, and those that are the reference."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 8000
"""Characters of an answer; a longer one is not read."""
_WORD = re.compile(r"\w+")


def settled(answer: str | None, question: str, reference: str) -> float | None:
    """The score where a rule decides it; None where a judge must.

    0 for no answer, one far too long or too short for the reference, and the question repeated; 1 for the reference
    itself, case, white space and punctuation aside.
    """
    if answer is None or len(answer) > LONGEST:
        return 0.0
    words, wanted, asked = _words(answer), _words(reference), _words(question)
    if words == wanted:
        return 1.0
    if len(words) < max(1, len(wanted) // 8):
        return 0.0
    return 0.0 if _repeats(" ".join(words), " ".join(asked)) else None


def _repeats(answer: str, question: str) -> bool:
    """The question with hardly anything added, or most of it with nothing added."""
    if question and question in answer:
        return len(answer) <= 1.25 * len(question)
    return answer in question and len(answer) >= 0.5 * len(question)


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
