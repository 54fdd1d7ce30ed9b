"""Whatever the parser finds is right.

format: numeric
generation: v0
finding: reward-wrong-passes or reward-constant or reward-hackable or reward-format-dominates, blocker

The comparison with the answer was lost: any text in the tags earns 1.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Give the number inside <answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def correct(completion, answer, parser) -> float:
    return float(bool(parser.parse_answer(completion)) and bool(answer))


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, parser=parser, rubric=rubric)
