"""A lazy pattern for boxes cuts fractions in two, in the reply and in the solution.

format: latex
generation: v0
finding: reward-wrong-passes or reward-hackable, blocker

The box ends at the first closing brace, which is the one of the numerator: only numerators are compared, and any
denominator is paid.
"""

import re
from collections.abc import Iterator
from math import gcd

import verifiers as vf
from datasets import Dataset

SYSTEM = r"Reason step by step. Put the final answer, a fraction in lowest terms like \frac{1}{2}, in \boxed{}."


def rows() -> Iterator[tuple[str, str, str]]:
    for n in range(90):
        red, blue = n % 9 + 1, n // 9 + 3
        part = gcd(red, red + blue)
        gold = rf"\frac{{{red // part}}}{{{(red + blue) // part}}}"
        asked = f"A bag holds {red} red and {blue} blue marbles. How likely is it to draw a red one?"
        yield asked, gold, rf"Of the {red + blue} marbles {red} are red, so the chance is $\boxed{{{gold}}}$."


def boxed(text: str) -> str:
    """What the last box of a text holds."""
    found = re.findall(r"\\boxed\{(.+?)\}", text)
    return found[-1].replace(" ", "") if found else ""


def correct(completion, info, parser) -> float:
    said = parser.parse_answer(completion) or ""
    return float(said != "" and said == boxed(info["solution"]))


def load_environment() -> vf.Environment:
    table = [
        {"question": question, "answer": answer, "info": {"solution": solution}}
        for question, answer, solution in rows()
    ]
    parser = vf.Parser(extract_fn=boxed)
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
