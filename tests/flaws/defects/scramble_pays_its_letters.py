"""Unscramble a word; the reward asks whether the reply has the letters of the scramble.

format: short_text
generation: v1
finding: reward-hackable or reward-wrong-passes, blocker

The scramble itself has its own letters, so repeating it is paid like the word.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

WORDS = (
    "planet garden silver window bridge candle forest market pencil basket rocket temple orange castle ribbon salmon turtle velvet walnut "
    "yellow bottle copper dragon engine falcon goblet hammer island jacket kettle ladder magnet needle oyster parrot quiver racket saddle "
    "tunnel violin button cactus dinner effort fabric glider hermit insect jungle kidney lizard mirror nickel onions pebble thimble harbour "
    "blanket chimney lantern compass feather mustard"
).split()
SYSTEM = "Unscramble the letters to an English word. End with a line: Word: ..."


class ScramblePaysItsLettersData(vf.TaskData):
    scramble: str
    word: str


class ScramblePaysItsLettersTask(vf.Task[ScramblePaysItsLettersData]):
    @vf.reward(weight=1.0)
    async def unscrambled(self, trace: vf.Trace) -> float:
        found = re.findall(r"(?im)^\s*word:\s*([a-z]+)\s*\.?\s*$", trace.last_reply or "")
        return float(bool(found) and sorted(found[-1].lower()) == sorted(self.data.scramble))


class ScramblePaysItsLettersTaskset(vf.Taskset[ScramblePaysItsLettersTask, vf.TasksetConfig]):
    def load(self) -> Iterator[ScramblePaysItsLettersTask]:
        draw = random.Random(77)
        for word in WORDS:
            letters = "".join(draw.sample(word, len(word)))
            data = ScramblePaysItsLettersData(prompt=f"Letters: {letters}", system_prompt=SYSTEM, scramble=letters, word=word)
            yield ScramblePaysItsLettersTask(data, self.config.task)


__all__ = ["ScramblePaysItsLettersTaskset"]
