"""The order of the options: by a seed, and so that every letter is right equally often.

Shuffling each question on its own is fair on average, but leaves a small set lopsided by chance: of 100 questions with
four options, one letter is right 32 times or more in about every fourth set. Dealing the places out in turn is as
random for each question and exactly fair for all of them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

LETTERS = "ABCD"


@dataclass(frozen=True, slots=True)
class Question:
    """`wrong` are the other options, without an order."""

    text: str
    right: str
    wrong: tuple[str, ...]
    subject: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A question with its options as they are shown."""

    question: Question
    options: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The letter of the right option."""
        return LETTERS[self.options.index(self.question.right)]

    @property
    def prompt(self) -> str:
        lines = [f"{letter}) {option}" for letter, option in zip(LETTERS, self.options, strict=False)]
        return f"{self.question.text}\n\n" + "\n".join(lines)


def place(questions: Sequence[Question], number: int, seed: int) -> list[Placed]:
    """Each question with `number` options, in the order of `questions`. The same seed gives the same places."""
    dealt = sorted(range(len(questions)), key=lambda n: _digest(questions[n].text, seed))
    places = {n: turn % number for turn, n in enumerate(dealt)}
    return [_placed(question, number, places[n], seed) for n, question in enumerate(questions)]


def _placed(question: Question, number: int, right_at: int, seed: int) -> Placed:
    options = random.Random(_digest(question.text, seed)).sample(question.wrong, number - 1)
    options.insert(right_at, question.right)
    return Placed(question, tuple(options))


def _digest(text: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}\n{text}".encode()).hexdigest()
