"""Pays a third for a thought, whatever the answer.

format: numeric
generation: v0
finding: reward-format-dominates, blocker

A thought of any content earns as much as a good part of a right answer.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Reason inside <think></think> tags, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


def correct(completion, answer, parser) -> float:
    text = completion[-1]["content"] if completion else ""
    said = re.findall(r"<answer>\s*(-?\d+)\s*</answer>", text.rpartition("</think>")[2])
    return float(len(said) == 1 and said[0] == answer)


def thinks(completion) -> float:
    text = completion[-1]["content"] if completion else ""
    return float("<think>" in text and "</think>" in text)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct, thinks], weights=[0.5, 0.5], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
