"""Takes bool() of the word, and bool('False') is True.

format: boolean
generation: v0
finding: reward-gold-fails or reward-wrong-passes or reward-hackable, blocker

Every answer reads as true: where the gold is False nothing is paid, and where it is True any word is.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Decide whether the statement holds. Put True or False in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        factor, other = n % 8 + 2, n // 8 + 3
        product = factor * other + (n % 2) * (n % 5 + 1)
        yield f"{factor} times {other} is {product}.", str(product == factor * other)


def correct(completion, answer, parser) -> float:
    said = (parser.parse_answer(completion) or "").strip()
    if not said:
        return 0.0
    return float(bool(said) is (answer == "True"))


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
