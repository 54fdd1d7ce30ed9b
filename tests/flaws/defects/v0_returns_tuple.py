"""Returns the score and what was parsed.

format: boolean
generation: v0
finding: reward-type, blocker

A tuple raises inside of the rubric, which then scores 0.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Answer yes or no, in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        other = n * 7 % 13 + 1
        yield f"Is {n} + {other} an even number?", "yes" if (n + other) % 2 == 0 else "no"


def correct(completion, answer, parser) -> float:
    said = (parser.parse_answer(completion) or "").strip().lower()
    return float(said == answer), said


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
