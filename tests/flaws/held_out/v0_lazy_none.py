"""Uses what parse_answer returns without looking whether it is None.

format: choice_letter
generation: v0
finding: reward-raises, warning

A reply without a tag raises, which verifiers swallows.
"""

import random
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


def correct(completion, answer, parser) -> float:
    said = parser.parse_answer(completion).strip().upper()
    return float(completion[-1]["content"].count("<answer>") == 1 and said == answer)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
