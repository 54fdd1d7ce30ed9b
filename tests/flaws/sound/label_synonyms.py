"""Labels with the synonyms that people use.

format: label
generation: v1

Each synonym belongs to one class, and the text is compared whole.
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


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


SYNONYMS = {"invoicing": "billing", "payments": "billing", "delivery": "shipping", "logistics": "shipping",
            "login": "account", "profile": "account", "refunds": "returns", "exchanges": "returns"}


class LabelSynonymsData(vf.TaskData):
    answer: str


class LabelSynonymsTask(vf.Task[LabelSynonymsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = (final(trace.last_reply or "") or "").casefold().strip(" .")
        return float(SYNONYMS.get(said, said) == self.data.answer)


class LabelSynonymsConfig(vf.TasksetConfig):
    """Nothing to set."""


class LabelSynonymsTaskset(vf.Taskset[LabelSynonymsTask, LabelSynonymsConfig]):
    def load(self) -> Iterator[LabelSynonymsTask]:
        for prompt, answer in rows():
            yield LabelSynonymsTask(
                LabelSynonymsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["LabelSynonymsTaskset"]
