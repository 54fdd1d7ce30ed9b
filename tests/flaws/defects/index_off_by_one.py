"""The gold counts from 0, the reward from 1.

format: choice_index
generation: v1
finding: reward-gold-fails or reward-wrong-passes or gold-not-understood, blocker

Every right letter is refused and its neighbour is paid.
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
    chance = random.Random(11)
    for _ in range(100):
        options = chance.sample(WORDS, 4)
        shown = "\n".join(f"{letter}) {word}" for letter, word in zip("ABCD", options, strict=True))
        yield f"Which of these words comes last in the alphabet?\n{shown}", options, options.index(max(options))


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class IndexOffByOneData(vf.TaskData):
    options: list[str]
    answer: int


class IndexOffByOneTask(vf.Task[IndexOffByOneData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = (final(trace.last_reply or "") or "").upper()
        return float(len(said) == 1 and ord(said) - ord("A") + 1 == self.data.answer)


class IndexOffByOneConfig(vf.TasksetConfig):
    """Nothing to set."""


class IndexOffByOneTaskset(vf.Taskset[IndexOffByOneTask, IndexOffByOneConfig]):
    def load(self) -> Iterator[IndexOffByOneTask]:
        for prompt, options, answer in rows():
            yield IndexOffByOneTask(
                IndexOffByOneData(prompt=prompt, system_prompt=SYSTEM, options=options, answer=answer), self.config.task
            )


__all__ = ["IndexOffByOneTaskset"]
