"""Takes the first letter from A to D anywhere.

format: choice_letter
generation: v1
finding: reward-hackable or reward-gold-fails or reward-too-strict, blocker

Any word that begins with such a letter decides, and taking the answer back costs nothing.
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


def rows() -> Iterator[tuple[str, str]]:
    chance = random.Random(7)
    for _ in range(100):
        options = chance.sample(WORDS, 4)
        shown = "\n".join(f"{letter}) {word}" for letter, word in zip("ABCD", options, strict=True))
        yield f"Which of these words comes first in the alphabet?\n{shown}", "ABCD"[options.index(min(options))]


class FirstCapitalLetterData(vf.TaskData):
    answer: str


class FirstCapitalLetterTask(vf.Task[FirstCapitalLetterData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.search(r"[A-D]", trace.last_reply or "")
        return float(bool(found) and found[0] == self.data.answer)


class FirstCapitalLetterConfig(vf.TasksetConfig):
    """Nothing to set."""


class FirstCapitalLetterTaskset(vf.Taskset[FirstCapitalLetterTask, FirstCapitalLetterConfig]):
    def load(self) -> Iterator[FirstCapitalLetterTask]:
        for prompt, answer in rows():
            yield FirstCapitalLetterTask(
                FirstCapitalLetterData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["FirstCapitalLetterTaskset"]
