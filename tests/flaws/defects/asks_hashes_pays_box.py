"""The prompt shows the answer after four hash signs, and the reward reads a box.

format: numeric
generation: v1
finding: reward-contradicts-prompt, blocker

The commonest form of worked solutions earns nothing here.
"""

import random
import re

import verifiers.v1 as vf

ASK = "Give the result after four hash signs, like #### 42."


class SumData(vf.TaskData):
    answer: str


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"\\boxed\{([^}]*)\}", trace.last_reply)
        return float(bool(found) and found[-1].strip() == self.data.answer)


class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self) -> list[SumTask]:
        chance = random.Random(3)
        pairs = [(chance.randrange(20, 900), chance.randrange(20, 900)) for _ in range(80)]
        return [
            SumTask(SumData(prompt=f"What is {a} plus {b}? {ASK}", answer=str(a + b)), self.config.task)
            for a, b in pairs
        ]


__all__ = ["SumTaskset"]
