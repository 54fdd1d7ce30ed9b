"""Forgives what follows the number by comparing the beginning.

format: numeric
generation: v1
finding: reward-wrong-passes, blocker

42 is paid for 420 and 4200.
"""

from __future__ import annotations

import re
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


class StartsWithGoldData(vf.TaskData):
    answer: str


class StartsWithGoldTask(vf.Task[StartsWithGoldData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float((final(trace.last_reply or "") or "").startswith(self.data.answer))


class StartsWithGoldConfig(vf.TasksetConfig):
    """Nothing to set."""


class StartsWithGoldTaskset(vf.Taskset[StartsWithGoldTask, StartsWithGoldConfig]):
    def load(self) -> Iterator[StartsWithGoldTask]:
        for prompt, answer in rows():
            yield StartsWithGoldTask(
                StartsWithGoldData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["StartsWithGoldTaskset"]
