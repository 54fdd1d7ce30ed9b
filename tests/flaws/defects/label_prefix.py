"""Compares prefixes, to forgive cut-off labels.

format: label
generation: v1
finding: reward-wrong-passes, blocker

billing is paid for billing_disputes and the other way round, so the classes are never told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = (
    "Which queue takes this ticket: billing, billing_disputes, returns or returns_abroad? Put its name in "
    "<answer></answer> tags."
)


SAID = {
    "billing_disputes": (
        "I was charged twice for the",
        "The invoice lacks the",
        "My card was declined when I paid for the",
    ),
    "returns": ("The parcel is late with the", "The courier lost the", "Where is the van with the"),
    "billing": ("I cannot log in to see the", "My password fails when I order the", "Delete my profile and the saved"),
    "returns_abroad": ("I want to send back the", "Please exchange the broken", "How do I get a refund label for the"),
}
THINGS = ("lamp", "kettle", "jacket", "camera", "desk", "helmet", "printer", "carpet", "watch")


def rows() -> Iterator[tuple[str, str]]:
    for thing in THINGS:
        for label, phrases in SAID.items():
            for phrase in phrases:
                yield f"{phrase} {thing}.", label


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class LabelPrefixData(vf.TaskData):
    answer: str


class LabelPrefixTask(vf.Task[LabelPrefixData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = (final(trace.last_reply or "") or "").lower()
        return float(len(said) > 3 and (said.startswith(self.data.answer) or self.data.answer.startswith(said)))


class LabelPrefixConfig(vf.TasksetConfig):
    """Nothing to set."""


class LabelPrefixTaskset(vf.Taskset[LabelPrefixTask, LabelPrefixConfig]):
    def load(self) -> Iterator[LabelPrefixTask]:
        for prompt, answer in rows():
            yield LabelPrefixTask(LabelPrefixData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["LabelPrefixTaskset"]
