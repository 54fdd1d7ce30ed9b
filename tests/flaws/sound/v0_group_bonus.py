"""A right answer, and a little for being among the shortest right ones of the group.

format: numeric
generation: v0

The bonus goes to right answers only and is too small to matter beside them.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


def final(completion) -> str | None:
    """The one number in the tags of the last reply; None when there is none, or several."""
    said = completion[-1]["content"] if completion else ""
    found = re.findall(r"<answer>([^<]*)</answer>", said or "")
    return found[0].strip() if len(found) == 1 == (said or "").count("<answer>") else None


def correct(completion, answer) -> float:
    return float(final(completion) == answer)


def brief(completions, answers) -> list[float]:
    right = [final(said) == gold for said, gold in zip(completions, answers, strict=True)]
    lengths = [len(said[-1]["content"] or "") if said else 0 for said in completions]
    shortest = min((length for length, ok in zip(lengths, right, strict=True) if ok), default=0)
    return [float(ok and length == shortest) for length, ok in zip(lengths, right, strict=True)]


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct, brief], weights=[1.0, 0.04], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
