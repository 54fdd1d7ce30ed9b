"""Share of the reference's words that the reply contains.

format: free_text
generation: v1
finding: reward-wrong-passes or reward-hackable or reward-length-bonus, blocker

Copying the message scores high, and naming words costs nothing.
"""

from __future__ import annotations

import re
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


class WordRecallData(vf.TaskData):
    answer: str


class WordRecallTask(vf.Task[WordRecallData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        words = set(re.findall(r"[a-z]+", self.data.answer.lower()))
        said = set(re.findall(r"[a-z]+", (trace.last_reply or "").lower()))
        return len(words & said) / len(words)


class WordRecallConfig(vf.TasksetConfig):
    """Nothing to set."""


class WordRecallTaskset(vf.Taskset[WordRecallTask, WordRecallConfig]):
    def load(self) -> Iterator[WordRecallTask]:
        for prompt, answer in rows():
            yield WordRecallTask(WordRecallData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["WordRecallTaskset"]
