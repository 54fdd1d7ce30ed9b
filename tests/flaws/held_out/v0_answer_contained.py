"""Tests whether the reply is contained in the gold instead of the other way round.

format: numeric
generation: v0
finding: reward-wrong-passes or reward-format-dominates or reward-hackable, blocker

Any digit of the answer is right, and so is an empty tag.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


def correct(completion, answer, parser) -> float:
    said = parser.parse_answer(completion)
    return float(said is not None and said.strip() in answer)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
