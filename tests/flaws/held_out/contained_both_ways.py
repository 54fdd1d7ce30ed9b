"""Pays when either text contains the other.

format: label
generation: v1
finding: reward-hackable or reward-wrong-passes or reward-malformed-beats-wrong or reward-format-dominates, blocker

The empty answer is contained in every gold.
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


class ContainedBothWaysData(vf.TaskData):
    answer: str


class ContainedBothWaysTask(vf.Task[ContainedBothWaysData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.search(r"<answer>(.*?)</answer>", trace.last_reply or "", re.S)
        said = found[1].strip().lower() if found else "?"
        return float(said in self.data.answer or self.data.answer in said)


class ContainedBothWaysConfig(vf.TasksetConfig):
    """Nothing to set."""


class ContainedBothWaysTaskset(vf.Taskset[ContainedBothWaysTask, ContainedBothWaysConfig]):
    def load(self) -> Iterator[ContainedBothWaysTask]:
        for prompt, answer in rows():
            yield ContainedBothWaysTask(
                ContainedBothWaysData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["ContainedBothWaysTaskset"]
