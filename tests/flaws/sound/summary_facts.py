"""A summary must say who, what and why, and no more.

format: free_text
generation: v1

Three facts are looked for in one short sentence; other names or events make it wrong.
"""

from __future__ import annotations

import difflib
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


class SummaryFactsData(vf.TaskData):
    answer: str


class SummaryFactsTask(vf.Task[SummaryFactsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = (trace.last_reply or "").rpartition("</think>")[2].strip().splitlines()
        line = said[-1].strip() if said else ""
        if len(line.split()) > 25 or line.count(".") > 1:
            return 0.0
        words, gold = re.findall(r"[a-z]+", line.lower()), re.findall(r"[a-z]+", self.data.answer.lower())
        others = {name.lower() for name in NAMES} | set(EVENTS)
        if (others & set(words)) != (others & set(gold)) or {"not", "never", "no"} & (set(words) - set(gold)):
            return 0.0
        return float(difflib.SequenceMatcher(None, words, gold).ratio() > 0.8)


class SummaryFactsConfig(vf.TasksetConfig):
    """Nothing to set."""


class SummaryFactsTaskset(vf.Taskset[SummaryFactsTask, SummaryFactsConfig]):
    def load(self) -> Iterator[SummaryFactsTask]:
        for prompt, answer in rows():
            yield SummaryFactsTask(
                SummaryFactsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["SummaryFactsTaskset"]
