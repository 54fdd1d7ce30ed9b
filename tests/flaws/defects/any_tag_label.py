"""Pays when any tag of the reply holds the label.

format: label
generation: v1
finding: reward-hackable, blocker

Four tags with four labels are always right.
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


class AnyTagLabelData(vf.TaskData):
    answer: str


class AnyTagLabelTask(vf.Task[AnyTagLabelData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>\s*(\w+)\s*</answer>", (trace.last_reply or "").lower())
        return float(self.data.answer in found)


class AnyTagLabelConfig(vf.TasksetConfig):
    """Nothing to set."""


class AnyTagLabelTaskset(vf.Taskset[AnyTagLabelTask, AnyTagLabelConfig]):
    def load(self) -> Iterator[AnyTagLabelTask]:
        for prompt, answer in rows():
            yield AnyTagLabelTask(AnyTagLabelData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["AnyTagLabelTaskset"]
