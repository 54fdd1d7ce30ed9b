"""Remembers scores under the gold alone.

format: numeric
generation: v1
finding: reward-order-dependent or reward-nondeterministic or reward-constant or reward-gold-fails, blocker

The first reply to a question decides what every later one earns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


SCORES: dict[str, float] = {}


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def number(text: str | None) -> float | None:
    """The finite number that a text is, with thousands commas; None for anything else."""
    found = re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{0,10})?", (text or "").strip().replace(",", "").rstrip("."))
    return float(found[0]) if found else None


class CachedByTaskData(vf.TaskData):
    answer: str


class CachedByTaskTask(vf.Task[CachedByTaskData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        if self.data.answer not in SCORES:
            said = number(final(trace.last_reply or ""))
            SCORES[self.data.answer] = float(said == float(self.data.answer))
        return SCORES[self.data.answer]


class CachedByTaskConfig(vf.TasksetConfig):
    """Nothing to set."""


class CachedByTaskTaskset(vf.Taskset[CachedByTaskTask, CachedByTaskConfig]):
    def load(self) -> Iterator[CachedByTaskTask]:
        for prompt, answer in rows():
            yield CachedByTaskTask(
                CachedByTaskData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["CachedByTaskTaskset"]
