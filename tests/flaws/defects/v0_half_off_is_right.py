"""Numbers count as equal when they differ by less than half.

format: numeric
generation: v0
finding: reward-wrong-passes, blocker

A rough guess is paid like the result.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Give the number inside <answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def close(completion, answer, parser) -> float:
    said = (parser.parse_answer(completion) or "").strip()
    try:
        return float(abs(float(said) - float(answer)) <= 0.5 * float(answer))
    except ValueError:
        return 0.0


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[close], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, parser=parser, rubric=rubric)
