"""Strips punctuation, the minus sign included, from both sides.

format: numeric
generation: v1
finding: reward-wrong-passes, blocker

Signs are lost on the way, so the sign is never learned.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Work it out and give the temperature in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        start, drop = n % 19 - 9, n % 23 + 3
        yield (
            f"At noon it was {start} degrees; by night it was {drop} degrees colder. How cold was it then?",
            str(start - drop),
        )


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class StrippedMinusData(vf.TaskData):
    answer: str


class StrippedMinusTask(vf.Task[StrippedMinusData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = final(trace.last_reply or "")
        return float(
            said is not None and said.strip(string.punctuation + " ") == self.data.answer.strip(string.punctuation)
        )


class StrippedMinusConfig(vf.TasksetConfig):
    """Nothing to set."""


class StrippedMinusTaskset(vf.Taskset[StrippedMinusTask, StrippedMinusConfig]):
    def load(self) -> Iterator[StrippedMinusTask]:
        for prompt, answer in rows():
            yield StrippedMinusTask(
                StrippedMinusData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["StrippedMinusTaskset"]
