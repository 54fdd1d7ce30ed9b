"""The reward's parameters have names that the rubric never passes.

format: numeric
generation: v0
finding: reward-raises, blocker

The rubric calls by name, so every call raises and every completion earns 0.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Give the number inside <answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def match(p, c, a) -> float:
    return 1.0 if c[-1]["content"].strip() == f"<answer>{a}</answer>" else 0.0


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[match])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, rubric=rubric)
