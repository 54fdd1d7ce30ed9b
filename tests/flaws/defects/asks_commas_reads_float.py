"""The prompt demands thousands separators, and the reward reads the number with float().

format: numeric
generation: v1
finding: reward-contradicts-prompt, blocker

A model that writes what it was asked for is never paid.
"""

import random, re
import verifiers.v1 as vf
class SumData(vf.TaskData):
    answer: str
class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"<total>(.*?)</total>", trace.last_reply, re.DOTALL)
        if not found:
            return 0.0
        try:
            return float(float(found[-1].strip()) == float(self.data.answer))
        except ValueError:
            return 0.0
class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self):
        rng = random.Random(12)
        for _ in range(80):
            a, b, c = (rng.randrange(12000, 900000) for _ in range(3))
            yield SumTask(SumData(prompt=f"Three towns have {a:,}, {b:,} and {c:,} inhabitants. How many is that together? Write the number with thousands separators, as in 1,234,567, inside <total></total>.", answer=str(a + b + c)), self.config.task)
__all__ = ["SumTaskset"]
