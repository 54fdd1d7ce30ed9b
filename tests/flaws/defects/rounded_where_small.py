"""The prompt asks for one decimal, and the tolerance is relative, so that right roundings of small numbers fail.

format: numeric
generation: v1
finding: reward-contradicts-prompt, blocker

Where the result is small, only a reply that disregards the prompt is paid: training teaches to write more decimals.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Work out the speed. End with `Speed: <number>`, in kilometres per hour and rounded to one decimal place."


class Data(vf.TaskData):
    answer: str


class Task(vf.Task[Data]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        said = re.findall(r"Speed: (-?\d+(?:\.\d+)?)", trace.last_reply)
        return float(bool(said) and math.isclose(float(said[-1]), float(self.data.answer), rel_tol=0.003))


class Config(vf.TasksetConfig):
    pass


class Taskset(vf.Taskset[Task, Config]):
    def load(self) -> Iterator[Task]:
        chance = random.Random(5)
        for number in range(90):
            metres, minutes = chance.randint(150, 400), chance.randint(7, 13)
            metres *= 1 if number % 2 else 40
            yield Task(
                Data(
                    prompt=f"A barge makes {metres} metres in {minutes} minutes. How fast is it?",
                    system_prompt=SYSTEM,
                    answer=str(metres * 60 / minutes / 1000),
                ),
                self.config.task,
            )


__all__ = ["Taskset"]
