"""The prompt asks for a walk of the fewest steps, and the reward pays one of several such walks.

format: procedural
generation: v0
finding: reward-too-strict, blocker

Any shortest walk is right by the prompt. The reward pays the one that the generator found first.
"""

from __future__ import annotations

import random
import re

import verifiers as vf
from datasets import Dataset

ASK = (
    "A field has {width} columns (A, B, ...) and {height} rows (1, 2, ...). From a square you step to a square above, "
    "below, left or right of the present one. Walk from {start} to {goal} in as few steps as possible. List the "
    "squares with blanks between them inside <walk></walk>, the first and the last included."
)


def square(column: int, row: int) -> str:
    return f"{'ABCDEFGH'[column]}{row + 1}"


def walk(begin: tuple[int, int], end: tuple[int, int]) -> str:
    (column, row), squares = begin, [square(*begin)]
    while column != end[0]:
        column += 1 if end[0] > column else -1
        squares.append(square(column, row))
    while row != end[1]:
        row += 1 if end[1] > row else -1
        squares.append(square(column, row))
    return " ".join(squares)


def load_environment(**kwargs) -> vf.Environment:
    chance = random.Random(17)
    rows, seen = [], set()
    while len(rows) < 60:
        width, height = chance.randrange(4, 9), chance.randrange(4, 9)
        begin = (chance.randrange(width), chance.randrange(height))
        end = (chance.randrange(width), chance.randrange(height))
        if abs(begin[0] - end[0]) < 2 or abs(begin[1] - end[1]) < 2 or (begin, end, width) in seen:
            continue
        seen.add((begin, end, width))
        question = ASK.format(width=width, height=height, start=square(*begin), goal=square(*end))
        rows.append({"question": question, "answer": walk(begin, end)})
    parser = vf.XMLParser(fields=["walk"], answer_field="walk")

    def same_walk(completion, answer, **kwargs):
        given = parser.parse_answer(completion) or ""
        return float(re.findall(r"[A-H][1-8]", given.upper()) == answer.split())

    rubric = vf.Rubric(funcs=[same_walk], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), parser=parser, rubric=rubric, **kwargs)
