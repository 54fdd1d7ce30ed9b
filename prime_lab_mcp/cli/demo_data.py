"""Made-up word problems in the shape of GSM8K (`question`, `answer` ending in `#### N`), seeded."""

from __future__ import annotations

import json
import random
from pathlib import Path

_PEOPLE = ("Ama", "Bela", "Chidi", "Dora", "Emeka", "Freya", "Goran", "Hana", "Ines", "Jonas", "Kofi", "Lena")
_FRUIT = ("apples", "pears", "plums", "quinces", "melons", "figs", "olives", "lemons")


def write_problems(path: Path, count: int, seed: int = 7) -> None:
    """Write `count` different problems as JSON Lines."""
    draw = random.Random(seed)
    problems: set[str] = set()
    with path.open("w", encoding="utf-8") as sink:
        while len(problems) < count:
            question, answer = _problem(draw)
            if question not in problems:
                problems.add(question)
                sink.write(json.dumps({"question": question, "answer": answer}) + "\n")


def _problem(draw: random.Random) -> tuple[str, str]:
    name, other = draw.sample(_PEOPLE, 2)
    fruit = draw.choice(_FRUIT)
    baskets, each, given = draw.randint(3, 19), draw.randint(4, 25), draw.randint(2, 11)
    total, left = baskets * each, baskets * each - given
    kind = draw.randrange(3)
    if kind == 0:
        return (
            f"{name} fills {baskets} baskets with {each} {fruit} each and gives {given} {fruit} to {other}. "
            f"How many {fruit} does {name} keep?",
            f"{name} picked {baskets} * {each} = <<{baskets}*{each}={total}>>{total} {fruit}.\n"
            f"After giving {given} away, {total} - {given} = <<{total}-{given}={left}>>{left} remain.\n#### {left:,}",
        )
    if kind == 1:
        both = total + given
        return (
            f"{other} already has {given} {fruit}. {name} brings {baskets} crates of {each} {fruit}. "
            f"How many {fruit} are there together?",
            f"The crates hold {baskets} * {each} = <<{baskets}*{each}={total}>>{total}.\n"
            f"Together {total} + {given} = <<{total}+{given}={both}>>{both}.\n#### {both:,}",
        )
    earned = total * given
    return (
        f"{name} sells {baskets} sacks of {each} {fruit} at {given} cents a piece. How many cents does {name} earn?",
        f"{baskets} sacks hold {baskets} * {each} = <<{baskets}*{each}={total}>>{total} {fruit}.\n"
        f"They bring {total} * {given} = <<{total}*{given}={earned}>>{earned} cents.\n#### {earned:,}",
    )
