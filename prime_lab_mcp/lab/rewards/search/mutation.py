"""Mutates the recipes (recipes.py) of a search at random. The same seed gives the same recipes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from prime_lab_mcp.lab.rewards.search.recipes import LISTS, SEPARATORS, Piece, Recipe, Source
from prime_lab_mcp.lab.rewards.search.vocabulary import SearchVocabulary

_MOST_PIECES = 40
"""Largest number of pieces in a recipe."""
_TIMES = (2, 3, 5, 10, 30, 100)
"""Numbers of repetitions."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_COPIED = tuple(source for source in Source if source not in (Source.TEXT, Source.PROMPT_RESULT))
"""Sources that a mutation may copy. The result of an example is left out, because it may be the answer of the task."""
Mutate = Callable[[Recipe], Recipe]


class Mutator:
    """Makes new recipes from earlier ones. `draw` is the search's only source of randomness."""

    def __init__(self, vocabulary: SearchVocabulary, draw: random.Random) -> None:
        self.vocabulary = vocabulary
        self.draw = draw
        self.steps: tuple[Mutate, ...] = (
            *(self.insert, self.insert, self.replace, self.replace, self.drop, self.repeat, self.cut, self.swap),
            *(self.enclose, self.enclose, self.number, self.copy, self.case),
        )

    def child(self, recipe: Recipe, others: Sequence[Recipe]) -> Recipe:
        """Return a recipe with one to three mutations, sometimes after joining it with another recipe."""
        if others and self.draw.random() < 0.15:
            recipe = self.join(recipe, self.draw.choice(others))
        for _ in range(self.draw.choice((1, 1, 2, 3))):
            recipe = self.draw.choice(self.steps)(recipe)
        return replace(recipe, pieces=recipe.pieces[:_MOST_PIECES])

    def token(self) -> Piece:
        """Return a random text of the vocabulary, or rarely a single letter of it."""
        literals = self.vocabulary.literals
        own = literals and self.draw.random() < 0.35
        text = self.draw.choice(literals if own else self.vocabulary.tokens)
        return Piece(text=self.draw.choice(text) if len(text) > 1 and self.draw.random() < 0.05 else text)

    def _place(self, recipe: Recipe) -> int:
        return self.draw.randrange(len(recipe.pieces)) if recipe.pieces else 0

    def insert(self, recipe: Recipe) -> Recipe:
        """Insert a random text."""
        at, pieces = self.draw.randint(0, len(recipe.pieces)), recipe.pieces
        return recipe.after("insert", *pieces[:at], self.token(), *pieces[at:])

    def replace(self, recipe: Recipe) -> Recipe:
        """Replace one piece by a random text."""
        at, pieces = self._place(recipe), recipe.pieces
        return recipe.after("replace", *pieces[:at], self.token(), *pieces[at + 1 :])

    def drop(self, recipe: Recipe) -> Recipe:
        """Remove one piece."""
        at, pieces = self._place(recipe), recipe.pieces
        return recipe.after("drop", *pieces[:at], *pieces[at + 1 :])

    def repeat(self, recipe: Recipe) -> Recipe:
        """Repeat one piece."""
        if not recipe.pieces:
            return recipe
        at, pieces, times = self._place(recipe), recipe.pieces, self.draw.choice(_TIMES)
        return recipe.after("repeat", *pieces[:at], replace(pieces[at], times=times), *pieces[at + 1 :])

    def cut(self, recipe: Recipe) -> Recipe:
        """Cut off the end of one text, or all pieces after one piece."""
        if not recipe.pieces:
            return recipe
        at, pieces = self._place(recipe), recipe.pieces
        text = pieces[at].text
        if len(text) < 2 or pieces[at].source is not Source.TEXT:
            return recipe.after("truncate", *pieces[: at + 1])
        shorter = replace(pieces[at], text=text[: self.draw.randrange(1, len(text))])
        return recipe.after("truncate", *pieces[:at], shorter, *pieces[at + 1 :])

    def swap(self, recipe: Recipe) -> Recipe:
        """Shuffle the pieces."""
        pieces = list(recipe.pieces)
        self.draw.shuffle(pieces)
        return recipe.after("shuffle", *pieces)

    def enclose(self, recipe: Recipe) -> Recipe:
        """Wrap all pieces, or one piece, in one of the known wrappers."""
        if not self.vocabulary.forms:
            return self.insert(recipe)
        opening, closing = (Piece(text=text) for text in self.draw.choice(self.vocabulary.forms))
        at, pieces = self._place(recipe), recipe.pieces
        if self.draw.random() < 0.5 or not pieces:
            return recipe.after("enclose", opening, *pieces, closing)
        return recipe.after("enclose", *pieces[:at], opening, pieces[at], closing, *pieces[at + 1 :])

    def number(self, recipe: Recipe) -> Recipe:
        """Change a number in a text; insert a random text if there is no number."""
        places = [n for n, p in enumerate(recipe.pieces) if p.source is Source.TEXT and _NUMBER.search(p.text)]
        if not places:
            return self.insert(recipe)
        at, pieces = self.draw.choice(places), recipe.pieces
        match = self.draw.choice(list(_NUMBER.finditer(pieces[at].text)))
        value = float(match[0])
        changed = self.draw.choice((value + 1, value - 1, -value, value * 10, value / 2, value + 0.001, 0.0, 1e12))
        text = pieces[at].text[: match.start()] + f"{changed:g}" + pieces[at].text[match.end() :]
        return recipe.after("change a number", *pieces[:at], replace(pieces[at], text=text), *pieces[at + 1 :])

    def copy(self, recipe: Recipe) -> Recipe:
        """Insert a copy of part of the prompt, a list of numbers, or the answers of other tasks."""
        at, pieces = self.draw.randint(0, len(recipe.pieces)), recipe.pieces
        source = self.draw.choice(_COPIED)
        joined = self.draw.choice(SEPARATORS) if source in LISTS else ""
        times = self.draw.choice(_TIMES) if source is Source.COUNT else 1
        return recipe.after(f"copy {source}", *pieces[:at], Piece(source, joined, times), *pieces[at:])

    def case(self, recipe: Recipe) -> Recipe:
        """Change one text to upper, lower or title case."""
        if not recipe.pieces:
            return recipe
        at, pieces = self._place(recipe), recipe.pieces
        text = self.draw.choice((str.upper, str.lower, str.title))(pieces[at].text)
        return recipe.after("change the case", *pieces[:at], replace(pieces[at], text=text), *pieces[at + 1 :])

    def join(self, recipe: Recipe, other: Recipe) -> Recipe:
        """Join two recipes with a random separator."""
        between = Piece(text=self.draw.choice(("", " ", "\n", ", ")))
        return recipe.after("join two", *recipe.pieces, between, *other.pieces)
