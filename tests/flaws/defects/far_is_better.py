"""Pays the relative error where it means one minus it.

format: numeric
generation: v1
finding: reward-search-hole or reward-wrong-passes, blocker

A total of a million is paid in full for every order, and the right one earns nothing.
"""

import random
import re

import verifiers.v1 as vf

SYSTEM = "Estimate the total price in euros. Last line: 'Total: <number>'."


class BidData(vf.TaskData):
    price: float


class BidTask(vf.Task[BidData]):
    @vf.reward(weight=1.0)
    async def close(self, trace: vf.Trace) -> float:
        m = re.findall(r"Total:\s*([\d.]+)", trace.last_reply or "")
        if not m:
            return 0.0
        error = abs(float(m[-1].rstrip(".")) - self.data.price) / self.data.price
        return min(1.0, error)


class BidTaskset(vf.Taskset[BidTask, vf.TasksetConfig]):
    def load(self):
        rng = random.Random(17)
        for _ in range(80):
            a, b, x, y = rng.randint(2, 9), rng.randint(2, 9), rng.randint(3, 40), rng.randint(3, 40)
            yield BidTask(BidData(prompt=f"{a} chairs at {x} euros and {b} lamps at {y} euros.", system_prompt=SYSTEM, price=float(a * x + b * y)), self.config.task)


__all__ = ["BidTaskset"]
