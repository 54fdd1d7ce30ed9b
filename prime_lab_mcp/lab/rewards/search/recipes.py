"""Defines recipes, which make a completion for every task without reading the task's answer.

A recipe is a sequence of pieces. A piece is a constant text, a list of possible answers (counted numbers, answers of
other tasks), or a copy from the prompt: the whole prompt, its options, its numbers, its longest expression, the
function that it names, or the result of an example. Recipes do not copy shorter parts of a prompt, because a single
sentence or number of the prompt may really be the answer, so that its reward would not be a hole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import options_of, prompt_of
from prime_lab_mcp.lab.worker.description import Row

LONGEST = 12_000
"""Longest completion of the search, in characters."""
MOST_COUNTED = 2_000
"""Largest number of counted numbers in one piece."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_EXPRESSION = re.compile(r"[\da-z(][\da-z\s.()^*/×÷+-]*[\d)a-z]")
_OPERATION = re.compile(r"\d\s*[-+*/^×÷]\s*[\d(]|[\d)]\s*\(|[a-z]\s*[-+*/^]\s*\d")
_STATED_RESULT = re.compile(r"(?:==|->|=>|returns?|gives)\s*([^\n;`]{1,200})")
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\(|`([A-Za-z_]\w*)`")
_FEWEST_NUMBERS = 3
"""Smallest number of numbers in a prompt that are copied, because one or two may be the answer itself."""


class Source(StrEnum):
    """Where the text of a piece comes from. Reports show the value."""

    TEXT = "text"
    PROMPT = "the prompt"
    OPTIONS = "the options of the prompt"
    NUMBERS = "the numbers of the prompt"
    EXPRESSION = "the expression of the prompt"
    FUNCTION = "the function that the prompt names"
    PROMPT_RESULT = "the result that the prompt shows"
    COUNT = "numbers from 0"
    AS_MANY = "as many numbers as the prompt has, from 1"
    ANSWERS = "the answers of other tasks"


LISTS = frozenset({Source.OPTIONS, Source.NUMBERS, Source.COUNT, Source.AS_MANY, Source.ANSWERS})
"""Sources of several items, which the text of the piece joins. COUNT has `times` items."""
SEPARATORS = (" ", ", ", "\n", "+", "*", ",", "|")


@dataclass(frozen=True, slots=True)
class SearchTask:
    """The parts of a task that a recipe may read: its prompt, and answers of other tasks, but not its own answer."""

    row: int
    prompt: str
    options: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    expression: str = ""
    function: str = ""
    prompt_result: str = ""
    answers: tuple[str, ...] = ()


def search_task(row: Row, answers: tuple[str, ...] = ()) -> SearchTask:
    """Return the parts of a task that a recipe may read. `answers` are those of other tasks."""
    prompt = prompt_of(row)
    expressions = [text for text in _EXPRESSION.findall(prompt) if _OPERATION.search(text)]
    named = [first or second for first, second in _FUNCTION.findall(prompt)]
    results = [text.strip().rstrip(".") for text in _STATED_RESULT.findall(prompt)]
    return SearchTask(
        row.index,
        prompt,
        tuple(options_of(row)),
        tuple(dict.fromkeys(_NUMBER.findall(prompt))),
        max(expressions, key=len, default=""),
        named[0] if named else "",
        results[0] if results else "",
        answers,
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a completion.

    `text` is the constant text, or the separator between the items of a list. `times` is the number of repetitions, or
    the number of items for COUNT.
    """

    source: Source = Source.TEXT
    text: str = ""
    times: int = 1

    def render(self, task: SearchTask) -> str:
        """Return the text of the piece for a task."""
        if self.source is Source.TEXT:
            return self.text * self.times
        if self.source is Source.COUNT:
            return self.text.join(map(str, range(min(self.times, MOST_COUNTED))))
        if self.source in LISTS:
            return self.text.join(self._items(task))
        copies = {
            Source.PROMPT: task.prompt,
            Source.EXPRESSION: task.expression,
            Source.FUNCTION: task.function,
            Source.PROMPT_RESULT: task.prompt_result,
        }
        return copies[self.source] * self.times

    def _items(self, task: SearchTask) -> tuple[str, ...]:
        """Return the items of a list from the prompt or from other tasks."""
        if self.source is Source.OPTIONS:
            return task.options
        if self.source is Source.ANSWERS:
            return task.answers
        if self.source is Source.AS_MANY:
            number = len(_NUMBER.findall(task.prompt))
            return tuple(map(str, range(1, number + 1))) if number >= _FEWEST_NUMBERS else ()
        # One or two numbers may be the answer itself. A sum or product that is not worked out is not an answer.
        fewest = 2 if self.text in ("+", "*") else _FEWEST_NUMBERS
        return task.numbers if len(task.numbers) >= fewest else ()

    @property
    def size(self) -> int:
        """A measure of the piece's length. A copy counts as 40 characters."""
        return len(self.text) * self.times if self.source is Source.TEXT else 40 + self.times

    def __str__(self) -> str:
        if self.source is Source.TEXT:
            return quote(self.text, 80) + ("" if self.times == 1 else f" {self.times} times")
        if self.source is Source.COUNT:
            return f"{self.source} to {min(self.times, MOST_COUNTED) - 1} joined by {quote(self.text, 20)}"
        joined = f" joined by {quote(self.text, 20)}" if self.source in LISTS else ""
        return f"{self.source}{joined}" + ("" if self.times == 1 else f" {self.times} times")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A completion for every task, as a sequence of pieces.

    `steps` names the first recipe and the latest mutations that led to this one, at most eight.
    """

    pieces: tuple[Piece, ...]
    steps: tuple[str, ...] = ()

    def render(self, task: SearchTask) -> str:
        """Return the completion for a task, at most `LONGEST` characters of it."""
        return "".join(piece.render(task) for piece in self.pieces)[:LONGEST]

    @property
    def constant(self) -> bool:
        """Whether the completion is the same for every task."""
        return all(piece.source in (Source.TEXT, Source.COUNT) for piece in self.pieces)

    @property
    def size(self) -> int:
        """A measure of the recipe's length, with which shrinking compares recipes."""
        return sum(piece.size for piece in self.pieces)

    def after(self, step: str, *pieces: Piece) -> Recipe:
        """Return a recipe with these pieces, to which the mutation `step` has led. Empty texts are left out."""
        return Recipe(tuple(p for p in pieces if p.source is not Source.TEXT or p.text), (*self.steps, step)[-8:])

    def __str__(self) -> str:
        return " + ".join(map(str, self.pieces)) or "nothing"


def text_recipe(text: str, step: str) -> Recipe:
    """Return the recipe for a constant text."""
    return Recipe((Piece(text=text),) if text else (), (step,))


def smaller_recipes(recipe: Recipe) -> Iterator[Recipe]:
    """Yield smaller recipes: without half of the pieces, without one piece, and with one shorter piece."""
    pieces = recipe.pieces
    for width in sorted({len(pieces) // 2, 1} - {0}, reverse=True):
        for start in range(0, len(pieces), width):
            yield replace(recipe, pieces=(*pieces[:start], *pieces[start + width :]))
    for at, piece in enumerate(pieces):
        for fewer in _smaller_pieces(piece):
            yield replace(recipe, pieces=(*pieces[:at], fewer, *pieces[at + 1 :]))


def _smaller_pieces(piece: Piece) -> Iterator[Piece]:
    """Yield copies of a piece with fewer repetitions or without part of its text."""
    for times in dict.fromkeys((1, piece.times // 4, piece.times // 2, piece.times - 1)):
        if 1 <= times < piece.times:
            yield replace(piece, times=times)
    length = len(piece.text)
    widths = dict.fromkeys(w for w in (length // 2, length // 4, length // 8, 1) if w)
    for width in widths if piece.source is Source.TEXT else ():
        if length // width > 40:
            continue
        for start in range(0, length, width):
            rest = piece.text[:start] + piece.text[start + width :]
            if rest:
                yield replace(piece, text=rest)
