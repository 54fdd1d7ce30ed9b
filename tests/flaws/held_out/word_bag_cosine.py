"""Pays when the bags of words are alike enough.

format: free_text
generation: v1
finding: reward-wrong-passes or reward-hackable, blocker

Word order and negation are not seen, and the words of the message nearly suffice.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Summarise the message in one sentence."


NAMES = ("Ana", "Bo", "Chen", "Dora", "Emil", "Fatou", "Gil", "Hana", "Ivo", "Jo")
EVENTS = ("rehearsal", "meeting", "flight", "exam", "wedding", "match", "lecture", "interview", "dinner", "hike")
REASONS = ("the bridge was closed", "her phone had no power", "the tickets were sold out", "a storm cut the line",
           "the alarm never rang", "the car would not start", "the letter came late")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        name, event, reason = NAMES[n % 10], EVENTS[n // 10], REASONS[n % 7]
        asked = (
            f"Hi all, sorry to say that it did not work out today. You know how much {name} wanted to be there, but "
        )
        asked += f"{reason}, and so the {event} went on without {name}. We will try again."
        yield asked, f"{name} missed the {event} because {reason}."


class WordBagCosineData(vf.TaskData):
    answer: str


class WordBagCosineTask(vf.Task[WordBagCosineData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = Counter(re.findall(r"[a-z]+", (trace.last_reply or "").lower()))
        gold = Counter(re.findall(r"[a-z]+", self.data.answer.lower()))
        dot = sum(said[word] * gold[word] for word in gold)
        size = math.sqrt(sum(v * v for v in said.values())) * math.sqrt(sum(v * v for v in gold.values()))
        return float(size > 0 and dot / size > 0.55)


class WordBagCosineConfig(vf.TasksetConfig):
    """Nothing to set."""


class WordBagCosineTaskset(vf.Taskset[WordBagCosineTask, WordBagCosineConfig]):
    def load(self) -> Iterator[WordBagCosineTask]:
        for prompt, answer in rows():
            yield WordBagCosineTask(
                WordBagCosineData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["WordBagCosineTaskset"]
