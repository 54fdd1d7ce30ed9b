"""Findings about answers that no rule can compare, that have no one form, or that are in no known column.

Many such answers are texts that end in a number. The findings then propose a column of these numbers. They are not read
as golds: `She has 129 pens, after adding 56 to 73.` ends in a number that is not its result. Only who knows the
data can say whether the numbers are the answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.columns import OTHER_NAMES, WEAK_ANSWER_NAMES, Column, Rows, spread_rows
from prime_lab_mcp.lab.datasets.formats import MIXED_SHARE, SAMPLE
from prime_lab_mcp.lab.datasets.row_values import snake_case, value_at

_ENDING = re.compile(
    r"(?<![\w.,/^])([-+]?[$€£¥]?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?%?)(?![\w/^])(?:\s?[A-Za-z]+){0,3}[^\w]{0,5}$"
)
"""The last number of a text, with at most three words of a unit behind."""
_LAST_CHARACTERS = 120
_EXAMPLES, _LISTED = 3, 6
_NOTES = OTHER_NAMES | WEAK_ANSWER_NAMES
"""Names of columns that refer to a row or classify it."""


@dataclass(frozen=True, slots=True)
class NumberEndings:
    """How many of the answers end in a number, and the first few of these numbers."""

    ending: int
    answers: int
    numbers: tuple[str, ...]

    def summary(self) -> str:
        shown = ", ".join(quote(number, 30)[1:-1] for number in self.numbers)
        return f"{self.ending:,} of {count(self.answers, 'answer')} end in a number ({shown})"

    def remedy(self) -> str:
        """What would do where the numbers are the results."""
        return (
            "If that number is the result, a column of these numbers alone would do: write it into the rows and name "
            "it as answer_column."
        )


def number_at_end(text: str) -> str | None:
    """The number in which a text ends; None if the text does not end in one."""
    found = _ENDING.search(text.rstrip()[-_LAST_CHARACTERS:])
    return found[1] if found is not None and golds.number_in(found[1]) is not None else None


def number_endings(rows: Rows, path: str) -> NumberEndings | None:
    """The numbers in which the answers at `path` end; None if fewer than `MIXED_SHARE` of the answers end in one."""
    values = (value_at(row, path) for _, row in spread_rows(rows, SAMPLE))
    texts = [golds.gold_text(value) for value in values if isinstance(value, str | int | float)]
    texts = [text for text in texts if not golds.is_empty(text)]
    numbers = [number for text in texts if (number := number_at_end(text)) is not None]
    if not texts or len(numbers) < MIXED_SHARE * len(texts):
        return None
    return NumberEndings(len(numbers), len(texts), tuple(dict.fromkeys(numbers))[:_EXAMPLES])


def possible_answers(columns: Sequence[Column], rows: Rows, prompt: Sequence[str]) -> tuple[str, ...]:
    """The columns that may hold the answers although no name says so, without the `prompt`.

    Where one of several ends in numbers in most rows, the result is that one.
    """
    left = [c.name for c in columns if c.name not in prompt and _may_be_answer(c, rows)]
    ending = [name for name in left if number_endings(rows, name) is not None and _are_texts(rows, name)]
    return tuple(ending if len(ending) == 1 else left)


def _may_be_answer(column: Column, rows: Rows) -> bool:
    last = snake_case(column.name).rpartition(".")[2]
    held = column.null_rate <= 0.5 and any(not golds.is_empty(value_at(row, column.name)) for _, row in rows)
    return held and column.distinct > 1 and last not in _NOTES and not last.endswith("_id")


def _are_texts(rows: Rows, path: str) -> bool:
    values: list[Any] = [value_at(row, path) for _, row in spread_rows(rows, SAMPLE)]
    return any(isinstance(value, str) and golds.number_in(value) is None for value in values)


def no_answer_column(columns: Sequence[Column], rows: Rows, prompt: Sequence[str]) -> Finding:
    """The blocker `empty-gold` of a table in which no column was taken for the answers."""
    possible = possible_answers(columns, rows, prompt)
    if len(possible) == 1:
        endings = number_endings(rows, possible[0])
        detail = f"; in {quote(possible[0], 60)}, {endings.summary()}" if endings else ""
        fix = Fix("If these are the answers, pass ", SameCall(answer_column=possible[0]), ".")
        fix += f" {endings.remedy()}" if endings else ""
    else:
        detail = ""
        named = f" It may be one of {', '.join(quote(name, 40) for name in possible[:_LISTED])}." if possible else ""
        fix = Fix(f"Name it with answer_column.{named} A task without gold needs a judge or a check of its own.")
    return Finding(
        "empty-gold",
        "blocker",
        f"no column holds answers: none has a usual name, or those that do are empty{detail}.",
        fix,
    )


def no_checkable_answer(format: str, endings: NumberEndings | None) -> Finding:
    """The warning of a table whose answers only a judge model can compare with a reply."""
    judge = (
        'Call create_environment with template="free_text": its reward asks a judge with a pinned model and rubric. '
        'Then call test_reward with judge="prime" (or another endpoint), which shows how often the judge is right.'
    )
    if endings is not None:
        return Finding(
            "no-checkable-answer",
            "warning",
            f"the answers are longer texts, which no rule can compare with a reply; {endings.summary()}.",
            f"{endings.remedy()} Only where a right reply is more than this number: {judge[0].lower()}{judge[1:]}",
        )
    answers = "the replies of a conversation" if format == "chat_messages" else "free texts"
    return Finding(
        "no-checkable-answer",
        "warning",
        f"the answers are {answers}: no rule can tell a right reply from a wrong one, only a judge model can.",
        f"{judge} Or name a column with a short answer as answer_column.",
    )


def with_number_remedy(finding: Finding, endings: NumberEndings | None) -> Finding:
    """A finding about answers of several forms, with the remedy for texts that end in a number."""
    if endings is None or finding.code != "mixed-format":
        return finding
    message = f"{finding.message.removesuffix('.')}; {endings.summary()}."
    return replace(finding, message=message, fix=f"{endings.remedy()} Or keep the rows of one form.")
