"""Golds are indices from 0, answers are letters.

format: choice_index
generation: v1

The index is turned into its letter once, when the gold is read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Answer the question. Put the letter of the right option in <answer></answer> tags."


WORDS = (
    "apple apricot banana blackberry cherry coconut date elder fig grape guava kiwi lemon lime lychee mango melon "
    "nectarine olive orange papaya peach pear plum quince raspberry strawberry tangerine"
).split()


def rows() -> Iterator[tuple[str, list[str], int]]:
    chance = random.Random(7)
    for _ in range(100):
        options = chance.sample(WORDS, 4)
        shown = "\n".join(f"{letter}) {word}" for letter, word in zip("ABCD", options, strict=True))
        yield f"Which of these words comes first in the alphabet?\n{shown}", options, options.index(min(options))


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class ChoiceByIndexData(vf.TaskData):
    options: list[str]
    answer: int


class ChoiceByIndexTask(vf.Task[ChoiceByIndexData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = (final(trace.last_reply or "") or "").strip(" ().").upper()
        return float(said == "ABCD"[self.data.answer])


class ChoiceByIndexConfig(vf.TasksetConfig):
    """Nothing to set."""


class ChoiceByIndexTaskset(vf.Taskset[ChoiceByIndexTask, ChoiceByIndexConfig]):
    def load(self) -> Iterator[ChoiceByIndexTask]:
        for prompt, options, answer in rows():
            yield ChoiceByIndexTask(
                ChoiceByIndexData(prompt=prompt, system_prompt=SYSTEM, options=options, answer=answer), self.config.task
            )


__all__ = ["ChoiceByIndexTaskset"]
