"""Pays every number on the few tasks whose data has no checked answer.

format: numeric
generation: v1
finding: reward-wrong-passes, blocker

A lookup of the checked answers misses five of three hundred tasks, and the default makes any number right there.
"""

import random
import re

import verifiers.v1 as vf

SYSTEM = "Work out the sum. End with the number in <answer></answer> tags."
MISSED = {47, 108, 171, 233, 294}


class SumData(vf.TaskData):
    answer: str
    checked: bool = True


class Sum(vf.Task[SumData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>\s*(-?\d+)\s*</answer>", trace.last_reply or "")
        if not found:
            return 0.0
        return float(found[-1] == (self.data.answer if self.data.checked else found[-1]))


class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self):
        rng = random.Random(11)
        for n in range(300):
            a, b = rng.randrange(100, 900), rng.randrange(100, 900)
            yield Sum(
                SumData(prompt=f"What is {a} + {b}?", system_prompt=SYSTEM, answer=str(a + b), checked=n not in MISSED),
                self.config.task,
            )


__all__ = ["Sums"]
