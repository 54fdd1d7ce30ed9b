"""The prompt asks for a box, and the parser reads a tag.

format: numeric
generation: v0
finding: reward-contradicts-prompt, blocker

The default prompt was exchanged for another one and the parser was not.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def correct(completion, answer, parser) -> float:
    return 1.0 if (parser.parse_answer(completion) or "").strip() == answer else 0.0


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, parser=parser, rubric=rubric)
