"""Takes whichever of the labels a set yields first.

format: label
generation: v1
finding: reward-nondeterministic or reward-hackable, blocker

A reply that names all labels is paid by the hash seed of the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

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


class SetOrderData(vf.TaskData):
    answer: str


class SetOrderTask(vf.Task[SetOrderData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.search(r"<answer>([^<]*)</answer>", (trace.last_reply or "").lower())
        mentioned = {part.strip(" .") for part in found[1].split(",")} if found else set()
        return float(next(iter(mentioned), None) == self.data.answer)


class SetOrderConfig(vf.TasksetConfig):
    """Nothing to set."""


class SetOrderTaskset(vf.Taskset[SetOrderTask, SetOrderConfig]):
    def load(self) -> Iterator[SetOrderTask]:
        for prompt, answer in rows():
            yield SetOrderTask(SetOrderData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["SetOrderTaskset"]
