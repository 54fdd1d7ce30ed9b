"""Unscramble a word; the reward asks for the word.

format: short_text
generation: v1

Only the word that the task has in mind is paid. Twin of scramble_pays_its_letters.
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
SYSTEM = "Unscramble the letters to the word that I have in mind. End with a line: Word: ..."


class ScramblePaysTheWordData(vf.TaskData):
    scramble: str
    word: str


class ScramblePaysTheWordTask(vf.Task[ScramblePaysTheWordData]):
    @vf.reward(weight=1.0)
    async def unscrambled(self, trace: vf.Trace) -> float:
        found = re.findall(r"(?im)^\s*word:\s*([a-z]+)\s*\.?\s*$", trace.last_reply or "")
        return float(bool(found) and found[-1].lower() == self.data.word)


class ScramblePaysTheWordTaskset(vf.Taskset[ScramblePaysTheWordTask, vf.TasksetConfig]):
    def load(self) -> Iterator[ScramblePaysTheWordTask]:
        draw = random.Random(77)
        for word in WORDS:
            letters = "".join(draw.sample(word, len(word)))
            data = ScramblePaysTheWordData(prompt=f"Letters: {letters}", system_prompt=SYSTEM, scramble=letters, word=word)
            yield ScramblePaysTheWordTask(data, self.config.task)


__all__ = ["ScramblePaysTheWordTaskset"]
