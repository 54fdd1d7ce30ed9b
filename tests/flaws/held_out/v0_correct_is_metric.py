"""Gives correctness the weight 0, so that it is only recorded.

format: label
generation: v0
finding: reward-wrong-passes or reward-format-dominates or reward-constant, blocker

What is paid is the form alone.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "Which team handles this ticket: billing, shipping, account or returns? Put its name in <answer></answer> tags."
)


SAID = {
    "billing": ("I was charged twice for the", "The invoice lacks the", "My card was declined when I paid for the"),
    "shipping": ("The parcel is late with the", "The courier lost the", "Where is the van with the"),
    "account": ("I cannot log in to see the", "My password fails when I order the", "Delete my profile and the saved"),
    "returns": ("I want to send back the", "Please exchange the broken", "How do I get a refund label for the"),
}
THINGS = ("lamp", "kettle", "jacket", "camera", "desk", "helmet", "printer", "carpet", "watch")


def rows() -> Iterator[tuple[str, str]]:
    for thing in THINGS:
        for label, phrases in SAID.items():
            for phrase in phrases:
                yield f"{phrase} {thing}.", label


def correct(completion, answer, parser) -> float:
    return float((parser.parse_answer(completion) or "").strip() == answer)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct, parser.get_format_reward_func()], weights=[0.0, 1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
