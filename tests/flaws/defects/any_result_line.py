"""Looks for the right line among all lines of the asked form.

format: numeric
generation: v1
finding: reward-hackable or reward-wrong-passes or reward-search-hole, blocker

The prompt asks for one line 'n = <value>', and the reward asks whether any such line is right: a reply with a line for
every number up to a hundred is right for every task.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Solve for the whole number n. End with 'n = <value>' on a line of its own."
LINE = re.compile(r"^\s*n\s*=\s*(\d+)\s*$", re.MULTILINE)


class RiddleData(vf.TaskData):
    n: int


class RiddleTask(vf.Task[RiddleData]):
    @vf.reward(weight=1.0)
    async def solved(self, trace: vf.Trace) -> float:
        return float(str(self.data.n) in LINE.findall(trace.last_reply or ""))


class RiddleConfig(vf.TasksetConfig):
    num_tasks: int = 80
    seed: int = 23


class RiddleTaskset(vf.Taskset[RiddleTask, RiddleConfig]):
    def load(self) -> Iterator[RiddleTask]:
        rng = random.Random(self.config.seed)
        for k in range(self.config.num_tasks):
            n, factor = 11 + k, rng.randint(2, 9)
            plus = rng.randint(1, 40)
            prompt = f"{factor} times n, and {plus} more, is {factor * n + plus}. What is n?"
            yield RiddleTask(RiddleData(prompt=prompt, system_prompt=SYSTEM, n=n), self.config.task)


__all__ = ["RiddleTaskset"]
