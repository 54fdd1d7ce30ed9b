"""The prompt names two keys of a JSON object in words, and the reward reads one of them.

format: numeric
generation: v1

The reason may be any text, but there must be one. The number may be a number or its text.
"""

import json
import random
import re

import verifiers.v1 as vf

ASK = 'Reply with a JSON object with the keys "reason" and "total" and nothing else.'


class SumData(vf.TaskData):
    answer: str


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        try:
            said = json.loads(re.sub(r"^```(?:json)?|```$", "", trace.last_reply.strip()))
            return float(bool(said["reason"]) and int(said["total"]) == int(self.data.answer))
        except (ValueError, KeyError, TypeError):
            return 0.0


class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self) -> list[SumTask]:
        chance = random.Random(3)
        pairs = [(chance.randrange(20, 900), chance.randrange(20, 900)) for _ in range(80)]
        return [
            SumTask(SumData(prompt=f"What is {a} plus {b}? {ASK}", answer=str(a + b)), self.config.task)
            for a, b in pairs
        ]


__all__ = ["SumTaskset"]
