"""Every mention of the answer adds to the reward.

format: numeric
generation: v0
finding: reward-hackable, blocker

The answer written fifty times earns fifty times as much as once.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Work it out and say the number."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def mentions(completion, answer) -> float:
    text = completion[-1]["content"] if completion else ""
    return float(len(re.findall(rf"\b{re.escape(answer)}\b", text)))


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[mentions])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, rubric=rubric)
