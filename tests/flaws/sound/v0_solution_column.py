"""The answer column holds whole solutions, and the box in them is the answer.

format: latex
generation: v0

Both sides are read from their last box and compared as whole texts.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Reason step by step and put the final answer within \\boxed{}."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(80):
        solution = f"The terms pair up to {n + 2} times {n + 9}. Hence the sum is $\\boxed{{{(n + 2) * (n + 9)}}}$."
        yield f"What is {n + 2} times {n + 9}?", solution


def boxed(text: str) -> str:
    _, found, rest = text.rpartition("\\boxed{")
    return rest.partition("}")[0].strip().rstrip(".").replace(",", "") if found and "}" in rest else ""


def same_box(completion, answer) -> float:
    text = (completion[-1]["content"] if completion else "").rpartition("</think>")[2]
    if text.count("\\boxed{") != 1 or "<think>" in text:
        return 0.0
    said = boxed(text)
    return float(said.isdecimal() and said.isascii() and int(said) == int(boxed(answer)))


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[same_box])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, rubric=rubric)
