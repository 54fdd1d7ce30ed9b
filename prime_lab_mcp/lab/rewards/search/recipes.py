"""A recipe: a rule from a task's prompt to a completion, as a sequence of pieces that never read the task's answer.

A piece is a constant text, a list of what any answer may be (counted numbers, answers of other tasks), or a copy of
what the prompt shows: the whole prompt, its options, its numbers, its longest expression, the function it names, the
result of an example.
Shorter parts of a prompt are left out on purpose: one sentence or number of a prompt may honestly be the answer, and
then its pay is no hole.
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
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_EXPRESSION = re.compile(r"[\da-z(][\da-z\s.()^*/×÷+-]*[\d)a-z]")
_OPERATION = re.compile(r"\d\s*[-+*/^×÷]\s*[\d(]|[\d)]\s*\(|[a-z]\s*[-+*/^]\s*\d")
_STATED_RESULT = re.compile(r"(?:==|->|=>|returns?|gives)\s*([^\n;`]{1,200})")
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\(|`([A-Za-z_]\w*)`")
_FEWEST_NUMBERS = 3
"""Fewest numbers of a prompt that are copied: one or two may be the answer itself."""


class Source(StrEnum):
    """Where the text of a piece comes from. The value is how a report names the source."""

    TEXT = "text"
    PROMPT = "the prompt"
    OPTIONS = "the options of the prompt"
    NUMBERS = "the numbers of the prompt"
    EXPRESSION = "the expression of the prompt"
    FUNCTION = "the function that the prompt names"
    PROMPT_RESULT = "the result that the prompt shows"
    COUNT = "numbers from 0"
    ANSWERS = "the answers of other tasks"


LISTS = frozenset({Source.OPTIONS, Source.NUMBERS, Source.COUNT, Source.ANSWERS})
"""Sources of several items, which are joined by the text of the piece; COUNT has as many items as `times` says."""
SEPARATORS = (" ", ", ", "\n", "+", "*", ",", "|")


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A task as a recipe sees it: its prompt, and `answers` of other tasks; never its own answer."""

    row: int
    prompt: str
    options: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    expression: str = ""
    function: str = ""
    prompt_result: str = ""
    answers: tuple[str, ...] = ()


def search_task(row: Row, answers: tuple[str, ...] = ()) -> SearchTask:
    """What a recipe may read of a task. `answers` are those of other tasks."""
    prompt = prompt_of(row)
    prompt_result = [text for text in _EXPRESSION.findall(prompt) if _OPERATION.search(text)]
    named = [first or second for first, second in _FUNCTION.findall(prompt)]
    results = [text.strip().rstrip(".") for text in _STATED_RESULT.findall(prompt)]
    return SearchTask(
        row.index,
        prompt,
        tuple(options_of(row)),
        tuple(dict.fromkeys(_NUMBER.findall(prompt))),
        max(prompt_result, key=len, default=""),
        named[0] if named else "",
        results[0] if results else "",
        answers,
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a completion. `text` is the text itself, or joins the items of a list."""

    source: Source = Source.TEXT
    text: str = ""
    times: int = 1

    def render(self, task: SearchTask) -> str:
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
        if self.source is Source.OPTIONS:
            return task.options
        if self.source is Source.ANSWERS:
            return task.answers
        # One or two numbers may be the answer itself, but a sum that is not worked out is none.
        fewest = 2 if self.text in ("+", "*") else _FEWEST_NUMBERS
        return task.numbers if len(task.numbers) >= fewest else ()

    @property
    def size(self) -> int:
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
    """A completion for every task. `steps` name the seed and the mutations that made the recipe."""

    pieces: tuple[Piece, ...]
    steps: tuple[str, ...] = ()

    def render(self, task: SearchTask) -> str:
        return "".join(piece.render(task) for piece in self.pieces)[:LONGEST]

    @property
    def reads_prompt(self) -> bool:
        return any(piece.source is not Source.TEXT for piece in self.pieces)

    @property
    def size(self) -> int:
        """A measure for the shorter of two recipes."""
        return sum(piece.size for piece in self.pieces)

    def after(self, step: str, *pieces: Piece) -> Recipe:
        """A recipe with other pieces that this step made from the present one."""
        return Recipe(tuple(p for p in pieces if p.source is not Source.TEXT or p.text), (*self.steps, step)[-8:])

    def __str__(self) -> str:
        return " + ".join(map(str, self.pieces)) or "nothing"


def text_recipe(text: str, step: str) -> Recipe:
    """The recipe of a constant."""
    return Recipe((Piece(text=text),) if text else (), (step,))


def smaller_recipes(recipe: Recipe) -> Iterator[Recipe]:
    """Recipes with less in them, the smallest first: without halves, without one piece, with shorter pieces."""
    pieces = recipe.pieces
    for width in sorted({len(pieces) // 2, 1} - {0}, reverse=True):
        for start in range(0, len(pieces), width):
            yield replace(recipe, pieces=(*pieces[:start], *pieces[start + width :]))
    for at, piece in enumerate(pieces):
        for fewer in _smaller_pieces(piece):
            yield replace(recipe, pieces=(*pieces[:at], fewer, *pieces[at + 1 :]))


def _smaller_pieces(piece: Piece) -> Iterator[Piece]:
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
