"""Rows have a column `task` with the name of the set, as the oldest v0 examples did.

format: short_text
generation: v0
finding: reward-rollout-fails, blocker

Loading and scoring work, and every rollout ends before the model is asked: newer verifiers read that column as the
whole task.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Write the word backwards, in <answer></answer> tags."
PARTS = ("lan", "tern", "win", "dow", "bar", "rel", "cop", "per", "mar", "ket")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(90):
        word = PARTS[n % 10] + PARTS[(n // 10 + n + 1) % 10]
        yield f"Word {n + 1}: {word}", word[::-1]


def correct(completion, answer, parser) -> float:
    return float((parser.parse_answer(completion) or "").strip() == answer)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer, "task": "backwards"} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
