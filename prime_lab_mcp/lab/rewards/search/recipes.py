"""A recipe: a rule from a task's prompt to a completion, as a sequence of pieces that never read the task's answer.

A piece is a constant text, or a copy of something that the prompt shows: the whole prompt, its options, its numbers.
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
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_FEWEST_NUMBERS = 3
"""Fewest numbers of a prompt that are copied: one or two may be the answer itself."""


class Source(StrEnum):
    """Where the text of a piece comes from. The value is how a report names the source."""

    TEXT = "text"
    PROMPT = "the prompt"
    OPTIONS = "the options of the prompt"
    NUMBERS = "the numbers of the prompt"


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A task as a recipe sees it: its prompt, never its answer."""

    row: int
    prompt: str
    options: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


def search_task(row: Row) -> SearchTask:
    """What a recipe may read of a task."""
    prompt = prompt_of(row)
    numbers = tuple(dict.fromkeys(_NUMBER.findall(prompt)))
    return SearchTask(row.index, prompt, tuple(options_of(row)), numbers if len(numbers) >= _FEWEST_NUMBERS else ())


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a completion. `text` is used by the source TEXT only."""

    source: Source = Source.TEXT
    text: str = ""
    times: int = 1

    def render(self, task: SearchTask) -> str:
        once = {
            Source.TEXT: self.text,
            Source.PROMPT: task.prompt,
            Source.OPTIONS: "\n".join(task.options),
            Source.NUMBERS: " ".join(task.numbers),
        }[self.source]
        return once * self.times

    def __str__(self) -> str:
        name = quote(self.text, 80) if self.source is Source.TEXT else str(self.source)
        return name if self.times == 1 else f"{name} {self.times} times"


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
        return sum(len(p.text) * p.times if p.source is Source.TEXT else 40 * p.times for p in self.pieces)

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
