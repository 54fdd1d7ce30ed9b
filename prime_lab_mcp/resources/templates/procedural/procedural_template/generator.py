"""Makes the puzzles. `puzzle` is the part to replace; `puzzles` keeps splits apart and repeats nothing.

A puzzle depends on the generator that it is handed and on nothing else: no clock, no `random.random()`, no order of a
set. So the same arguments give the same tasks in every process, which training relies on.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

LEVELS = ("easy", "medium", "hard")
STEPS = {"easy": 2, "medium": 5, "hard": 9}
"""How many steps a puzzle of a level has. What makes tasks harder stands here, not in how they are worded."""
HELD_OUT = 10
"""One in this many puzzles is held out."""
MODULUS = 1000


@dataclass(frozen=True)
class Puzzle:
    """One puzzle. `question` is what the model reads, `answer` the gold that is worked out beside it."""

    question: str
    answer: str


def puzzle(level: str, draw: random.Random) -> Puzzle:
    """One puzzle of a level: a counter, and steps that change it."""
    value = draw.randrange(10, 100)
    lines = [f"A counter stands at {value}."]
    for _ in range(STEPS[level]):
        text, value = _step(value, draw)
        lines.append(text)
    return Puzzle(" ".join([*lines, "What does the counter show?"]), str(value))


def _step(value: int, draw: random.Random) -> tuple[str, int]:
    """One instruction, and the counter after it."""
    number = draw.randrange(2, 10)
    kind = draw.choice(("add", "double", "times", "parity", "digits"))
    if kind == "add":
        more = draw.randrange(11, 300)
        return f"Add {more} and keep the last three digits.", (value + more) % MODULUS
    if kind == "double":
        return "Double it and keep the last three digits.", 2 * value % MODULUS
    if kind == "times":
        return f"Multiply by {number} and keep the last three digits.", value * number % MODULUS
    if kind == "parity":
        after = value // 2 if value % 2 == 0 else value + number
        return f"If it is even, halve it; otherwise add {number}.", after
    return "Add the sum of its digits.", value + sum(map(int, str(value)))


def puzzles(split: str, level: str, size: int, seed: int) -> Iterator[tuple[str, Puzzle]]:
    """`size` distinct puzzles with their levels, the same for the same arguments; with level `all` the levels take
    turns.

    No puzzle is in both splits, whatever the seeds: a hash of the question decides. Raises ValueError where there are
    not that many puzzles.
    """
    draw = random.Random(f"{seed}/{split}")
    levels = LEVELS if level == "all" else (level,)
    known: set[str] = set()
    for _ in range(100 * HELD_OUT * size):
        if len(known) == size:
            return
        chosen = levels[len(known) % len(levels)]
        made = puzzle(chosen, draw)
        if made.question not in known and _held_out(made.question) == (split == "eval"):
            known.add(made.question)
            yield chosen, made
    if len(known) < size:
        raise ValueError(f"there are only {len(known)} puzzles of level {level}, and {size} are asked for")


def _held_out(question: str) -> bool:
    return int(hashlib.sha256(question.encode()).hexdigest(), 16) % HELD_OUT == 0
