"""Makes the games. A game can be won without luck: a player who uses all marks has won it before it becomes a task.

A game depends on its arguments and on nothing else: no clock, no `random.random()`, no order of a set.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from game_template.duel import CODES, REMEMBERS, Duel, Game, good_guesses

LEVELS = tuple(REMEMBERS)
HELD_OUT = 5
"""One in this many codes is held out."""


def games(split: str, level: str, size: int, seed: int) -> Iterator[Game]:
    """`size` games that begin differently, the same for the same arguments; with level `all` the levels take turns.

    No code is in both splits, whatever the seeds: its hash decides. Raises ValueError where there are not that many.
    """
    draw = random.Random(f"{seed}/{split}")
    codes = [code for code in CODES if _held_out(code) == (split == "eval")]
    levels = LEVELS if level == "all" else (level,)
    known: set[str] = set()
    for _ in range(20 * size):
        if len(known) == size:
            return
        game = Game(draw.choice(codes), levels[len(known) % len(levels)], draw.randrange(1_000_000))
        opening = Duel(game).opening()
        if opening not in known and good_guesses(game):
            known.add(opening)
            yield game
    if len(known) < size:
        raise ValueError(f"there are only {len(known)} games of level {level}, and {size} are asked for")


def _held_out(code: str) -> bool:
    return int(hashlib.sha256(code.encode()).hexdigest(), 16) % HELD_OUT == 0
