"""The rules: which reply is a guess, its marks, what the opponent does, and who wins. Pure: no model, no verifiers.

The opponent follows from the game and the guesses so far, and from nothing else: no clock, nothing kept between games.
So a stored game can be scored again, and the same moves always lead to the same end.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

LETTERS, LENGTH = "ABCDEFGH", 3
CODES = tuple("".join(code) for code in permutations(LETTERS, LENGTH))
MAX_ROUNDS = 8
"""Guesses of the player. Who needs more has not won."""
REMEMBERS = {"easy": 0, "medium": 1, "hard": 99}
"""How many of the latest marks the opponent of a level takes into account."""
RULES = (
    f"A secret code has {LENGTH} different letters from {LETTERS[0]} to {LETTERS[-1]}. You and an opponent take turns "
    "at guessing it, and both see every guess with its marks: how many of its letters stand in their place, and how "
    "many others belong elsewhere in the code. Who guesses the code first wins. You have "
    f"{MAX_ROUNDS} guesses at most, and a reply without a guess is a lost turn."
)
FORMAT = "Think, then give one guess in guess tags: <guess>ABC</guess>"
_TAG = re.compile(r"<guess>([^<]*)</guess>", re.I)
_OPEN, _CLOSE = re.compile(r"<guess>", re.I), re.compile(r"</guess>", re.I)
_PUNCTUATION = re.compile(r"[\s,.*\"'`-]")
_THOUGHT_END, _THOUGHT_START = re.compile(r"</think(?:ing)?>", re.I), re.compile(r"<think(?:ing)?>", re.I)


@dataclass(frozen=True)
class Game:
    """A game that has not begun. `seed` decides what the opponent does."""

    code: str
    level: str
    seed: int


def guess_of(reply: str) -> str | None:
    """The guess of a reply; None unless it tags one possible code outside of its thoughts."""
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    found = _TAG.findall(said)
    if not len(found) == len(_OPEN.findall(said)) == len(_CLOSE.findall(said)):
        return None
    guesses = {_PUNCTUATION.sub("", content).upper() for content in found}
    guess = guesses.pop() if len(guesses) == 1 else ""
    return guess if guess in CODES else None


@cache
def marks(guess: str, code: str) -> tuple[int, int]:
    """How many letters stand in their place, and how many others belong elsewhere."""
    in_place = sum(said == hidden for said, hidden in zip(guess, code, strict=True))
    return in_place, len(set(guess) & set(code)) - in_place


def possible(guesses: Sequence[str], code: str) -> list[str]:
    """The codes that get the same marks for these guesses as the secret one."""
    return [other for other in CODES if all(marks(guess, other) == marks(guess, code) for guess in guesses)]


class Duel:
    """A game being played. `guesses` are those of both, in order; the opponent has made the first."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.guesses: list[str] = []
        self.rounds = 0
        self.winner: str | None = None
        self._opponent_guesses()

    def opening(self) -> str:
        """What the player sees first."""
        return f"The opponent begins with {self._shown(self.guesses[0])}"

    def play(self, reply: str) -> str | None:
        """What the player sees after a reply; None when the game is over."""
        self.rounds += 1
        guess = guess_of(reply)
        said = "That is no guess, so you lose this turn."
        if guess is not None:
            self.guesses.append(guess)
            said = f"Your guess {self._shown(guess)}"
        if guess == self.game.code:
            self.winner = "player"
        elif self.rounds < MAX_ROUNDS:
            self._opponent_guesses()
            if self.winner is None:
                return f"{said} The opponent guesses {self._shown(self.guesses[-1])}"
        return None

    def _opponent_guesses(self) -> None:
        remembered = self.guesses[max(0, len(self.guesses) - REMEMBERS[self.game.level]) :]
        left = [code for code in possible(remembered, self.game.code) if code not in self.guesses]
        # The opponent's first guess is never right, so that there is a game.
        left = left if self.guesses else [code for code in left if code != self.game.code]
        self.guesses.append(random.Random(f"{self.game.seed}/{len(self.guesses)}").choice(left))
        if self.guesses[-1] == self.game.code:
            self.winner = "opponent"

    def _shown(self, guess: str) -> str:
        in_place, elsewhere = marks(guess, self.game.code)
        return f"{guess}: {in_place} in place, {elsewhere} elsewhere."


def played(game: Game, replies: Sequence[str]) -> Duel:
    """The game after these replies."""
    duel = Duel(game)
    for reply in replies:
        if duel.play(reply) is None:
            break
    return duel


def good_guesses(game: Game) -> list[str]:
    """The guesses of a player who always names the first code that fits all marks; empty if that does not win."""
    duel, made = Duel(game), []
    while duel.winner is None and duel.rounds < MAX_ROUNDS:
        made.append(possible(duel.guesses, game.code)[0])
        duel.play(f"<guess>{made[-1]}</guess>")
    return made if duel.winner == "player" else []
