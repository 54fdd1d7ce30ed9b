"""Searches the completion as if it were a string.

format: numeric
generation: v0
finding: reward-raises, blocker

A list of messages raises TypeError, which verifiers swallows and scores 0.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


def correct(completion, answer) -> float:
    found = re.findall(r"<answer>(.*?)</answer>", completion)
    return float(bool(found) and found[-1].strip() == answer)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
