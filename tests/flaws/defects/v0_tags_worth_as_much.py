"""The tags are worth as much as the answer inside.

format: numeric
generation: v0
finding: reward-format-dominates, blocker

Half of the reward is the form, which is learned first and alone.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Put the number into <answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def correct(completion, answer, parser) -> float:
    return float((parser.parse_answer(completion) or "").strip() == answer)


def has_tags(completion) -> float:
    text = completion[-1]["content"] if completion else ""
    return float("<answer>" in text and "</answer>" in text)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct, has_tags], weights=[1.0, 1.0], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, parser=parser, rubric=rubric)
