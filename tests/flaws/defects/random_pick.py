"""Draws one of several answers by lot.

format: numeric
generation: v1
finding: reward-nondeterministic or reward-hackable, blocker

Giving several answers is paid by chance, and the same reply earns different amounts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


class RandomPickData(vf.TaskData):
    answer: str


class RandomPickTask(vf.Task[RandomPickData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>\s*(-?\d+)\s*</answer>", trace.last_reply or "")
        return float(bool(found) and random.choice(found) == self.data.answer)


class RandomPickConfig(vf.TasksetConfig):
    """Nothing to set."""


class RandomPickTaskset(vf.Taskset[RandomPickTask, RandomPickConfig]):
    def load(self) -> Iterator[RandomPickTask]:
        for prompt, answer in rows():
            yield RandomPickTask(RandomPickData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["RandomPickTaskset"]
