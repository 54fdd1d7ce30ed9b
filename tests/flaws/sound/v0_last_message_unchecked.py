"""The last message is read without looking whether there is one.

format: numeric
generation: v0

v0's rubric pays 0 for the exception of a missing reply; XMLParser decides which of two tags counts.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Think inside <think> tags, then give the number inside <answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def correct_answer(parser, completion, answer) -> float:
    last = completion[-1]["content"]
    assert isinstance(last, str)
    said = (parser.parse_answer(completion) or "").strip()
    return 1.0 if said == answer else 0.0


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["think", "answer"], answer_field="answer")
    rubric = vf.Rubric(
        funcs=[correct_answer, parser.get_format_reward_func()], weights=[1.0, 0.1], parser=parser
    )
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, parser=parser, rubric=rubric)
