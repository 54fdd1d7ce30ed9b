"""A letter, read by a parser of one's own, with a small reward for the form.

format: choice_letter
generation: v0

Several tags, thoughts and several letters earn nothing.
"""

import random
import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Answer the question. Put the letter of the right option in <answer></answer> tags."


WORDS = (
    "apple apricot banana blackberry cherry coconut date elder fig grape guava kiwi lemon lime lychee mango melon "
    "nectarine olive orange papaya peach pear plum quince raspberry strawberry tangerine"
).split()


def rows() -> Iterator[tuple[str, str]]:
    chance = random.Random(7)
    for _ in range(100):
        options = chance.sample(WORDS, 4)
        shown = "\n".join(f"{letter}) {word}" for letter, word in zip("ABCD", options, strict=True))
        yield f"Which of these words comes first in the alphabet?\n{shown}", "ABCD"[options.index(min(options))]


class OneLetter(vf.Parser):
    """The letter in the one tag of the last message; None when there is none or several."""

    def parse_answer(self, completion):
        text = (super().parse_answer(completion) or "").rpartition("</think>")[2].partition("<think>")[0]
        found = re.findall(r"<answer>\s*\(?([A-Da-d])[).]?\s*</answer>", text)
        return found[0].upper() if len(found) == 1 and text.count("<answer>") == 1 else None


def correct(completion, answer, parser) -> float:
    return float(parser.parse_answer(completion) == answer)


def form(completion, parser) -> float:
    return float(parser.parse_answer(completion) is not None)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = OneLetter()
    rubric = vf.Rubric(funcs=[correct, form], weights=[1.0, 0.1], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
