"""Refuses rows whose answers are sentences for a template that compares an answer as a whole.

Such a reward pays the sentence of the dataset and nothing else. Its reference answers earn the maximum and wrong ones
nothing, so that its tests hold; but a model that solves the task writes other words and is never paid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.inspection import TEMPLATES

COMPARED_WHOLE = frozenset({"math", "short_text"})
"""Templates that take any text as an answer."""
_WORDS = 12
"""Most words of an answer that a model writes as the dataset does: 95 of 100 answers of a short_text column have no
more (datasets/formats.py)."""
_FEWEST_WORDS = 8
"""Fewest words of two sentences. Shorter are names and abbreviations, such as "Washington D.C. United"."""
_TWO_SENTENCES = re.compile(r"\w[.!?]\s+[A-Z0-9]")
_STATES_ANSWER = re.compile(r"(?i)\banswer\s*(?:is\b|[:=])")
_MOST = 0.5
"""Share of sentences above which the template does not fit, as for rows that a template cannot read (rows.py)."""
_LISTED = 3


def is_sentence(answer: str) -> bool:
    """Whether an answer is told in sentences. LaTeX is none, however many blanks it has."""
    words = len(answer.split())
    if "\\" in answer:
        return False
    two = words >= _FEWEST_WORDS and _TWO_SENTENCES.search(answer) is not None
    return words > _WORDS or two or _STATES_ANSWER.search(answer) is not None


def fitting_template(template: str, format: str | None) -> str:
    """The template for answers of a format that were told in sentences, where `template` does not fit."""
    fitting = TEMPLATES.get(format) if format is not None else None
    return fitting if fitting is not None and fitting != template else "free_text"


def sentence_answers(template: str, rows: Iterable[Mapping[str, Any]], fitting: str) -> Finding | None:
    """The blocker `rows-do-not-fit` where most answers are sentences; None for other templates and rows.

    `rows` are those of the template. One of several right answers that is no sentence is enough. `fitting` is the
    template that the fix names instead.
    """
    if template not in COMPARED_WHOLE:
        return None
    answers = [(row["question"], row["answer"]) for row in rows]
    told = [(asked, answer) for asked, answer in answers if all(map(is_sentence, _texts(answer)))]
    if len(told) <= _MOST * len(answers):
        return None
    why = "whose reward asks a judge" if fitting == "free_text" else "which reads answers of this form"
    return Finding(
        "rows-do-not-fit",
        "blocker",
        f"{len(told):,} of {count(len(answers), 'answer')} are sentences, and the template {template} pays only a "
        "reply with the same words: a model that solves the task would earn nothing.",
        Fix("Name a column with the short answer as answer_column, or pass ", SameCall(template=fitting), f", {why}."),
        rows=tuple({"question": quote(str(a), 120), "value": quote(str(g), 200)} for a, g in told[:_LISTED]),
    )


def _texts(answer: Any) -> list[str]:
    return [str(one) for one in answer] if isinstance(answer, list | tuple) else [str(answer)]
