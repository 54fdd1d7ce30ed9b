"""A boxed number through a parser of one's own and math-verify.

format: latex
generation: v0
requires: math-verify

Only a plain number in the one box is handed to math-verify.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset
from math_verify import parse, verify

SYSTEM = "Solve the problem and put the final answer in \\boxed{}."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"Compute {n + 11} times {n % 9 + 13}.", str((n + 11) * (n % 9 + 13))


class OneBox(vf.Parser):
    """The content of the one box of the last message; None when there is none or several."""

    def parse_answer(self, completion):
        text = (super().parse_answer(completion) or "").rpartition("</think>")[2].partition("<think>")[0]
        found = re.findall(r"\\boxed\{([^{}]*)\}", text)
        return found[0].strip() if len(found) == 1 and text.count("\\boxed") == 1 else None


def correct(completion, answer, parser) -> float:
    said = parser.parse_answer(completion)
    if said is None or not re.fullmatch(r"-?[0-9][0-9,]{0,12}(\.[0-9]{1,6})?\.?", said):
        return 0.0
    gold = parse(f"${answer}$", parsing_timeout=None)
    return float(verify(gold, parse(f"${said.rstrip('.')}$", parsing_timeout=None), timeout_seconds=None))


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = OneBox()
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
