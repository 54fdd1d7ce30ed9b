"""Sums without end, each from its own seed.

format: procedural
generation: v1

Task n is the same at every load.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for seed in itertools.count():
        chance = random.Random(seed)
        a, b = chance.randint(1000, 9999), chance.randint(100, 9999)
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


class EndlessSumsData(vf.TaskData):
    answer: str


class EndlessSumsTask(vf.Task[EndlessSumsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(number(final(trace.last_reply or "")) == float(self.data.answer))


class EndlessSumsConfig(vf.TasksetConfig):
    """Nothing to set."""


class EndlessSumsTaskset(vf.Taskset[EndlessSumsTask, EndlessSumsConfig]):
    INFINITE = True

    def load(self) -> Iterator[EndlessSumsTask]:
        for prompt, answer in rows():
            yield EndlessSumsTask(EndlessSumsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["EndlessSumsTaskset"]
