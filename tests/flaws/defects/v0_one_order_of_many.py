"""The prompt asks for an order that fits, and the reward pays one of several such orders.

format: multi_answer
generation: v0
finding: reward-too-strict, blocker

Any order is right in which each dish comes after those that it needs. The reward pays the order of the generator.
"""

from __future__ import annotations

import random

import verifiers as vf
from datasets import Dataset

DISHES = (
    "stock", "dough", "filling", "glaze", "custard", "crumble", "syrup", "salad", "broth", "relish", "mousse", "gravy",
)  # fmt: skip
ASK = (
    "A kitchen makes these things: {names}.\n{needs}\nOne cook makes one thing after the other. Write an order in which "
    "all of them can be made, as one line with commas between the names, inside <order></order>."
)


def load_environment(**kwargs) -> vf.Environment:
    chance = random.Random(31)
    rows, seen = [], set()
    while len(rows) < 60:
        names = chance.sample(DISHES, chance.randint(5, 7))
        needs = {name: sorted(chance.sample(names[:n], min(n, 2))) for n, name in enumerate(names) if n % 2}
        told = "\n".join(f"The {name} needs the {' and the '.join(first)}." for name, first in needs.items())
        question = ASK.format(names=", ".join(sorted(names)), needs=told)
        if question not in seen:
            seen.add(question)
            rows.append({"question": question, "answer": ", ".join(names), "info": {"needs": str(needs)}})
    parser = vf.XMLParser(fields=["order"], answer_field="order")

    def in_order(completion, answer, **kwargs):
        given = (parser.parse_answer(completion) or "").lower()
        return float([name.strip() for name in given.split(",")] == answer.split(", "))

    rubric = vf.Rubric(funcs=[in_order], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), parser=parser, rubric=rubric, **kwargs)
