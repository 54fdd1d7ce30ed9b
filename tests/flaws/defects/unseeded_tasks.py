"""Draws its tasks without a seed.

format: procedural
generation: v1
finding: tasks-change, blocker

Every load has other tasks, so nothing can be evaluated twice or resumed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    while True:
        a, b = random.randint(10, 999), random.randint(10, 999)
        yield f"What is {a} + {b}?", str(a + b)


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


class UnseededTasksData(vf.TaskData):
    answer: str


class UnseededTasksTask(vf.Task[UnseededTasksData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(number(final(trace.last_reply or "")) == float(self.data.answer))


class UnseededTasksConfig(vf.TasksetConfig):
    """Nothing to set."""


class UnseededTasksTaskset(vf.Taskset[UnseededTasksTask, UnseededTasksConfig]):
    INFINITE = True

    def load(self) -> Iterator[UnseededTasksTask]:
        for prompt, answer in rows():
            yield UnseededTasksTask(
                UnseededTasksData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["UnseededTasksTaskset"]
