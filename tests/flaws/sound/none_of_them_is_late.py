"""Lists of what is late, which are empty where nothing is: "none" is the right answer of such a task.

format: multi_answer
generation: v1

An empty answer is an answer here: the prompt names the word for it, and the reward pays it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

ASK = (
    "A library lends books for {days} days. Today is day {today}. These loans are open:\n{loans}\nWhich loans are late? "
    "End with a line 'LATE:' and the numbers of these loans, with commas between them, or 'LATE: none'."
)


class LoanData(vf.TaskData):
    late: list[int]


class LoanTask(vf.Task[LoanData]):
    @vf.reward(weight=1.0)
    async def listed(self, trace: vf.Trace) -> float:
        lines = re.findall(r"^LATE:(.*)$", trace.last_reply or "", re.M)
        if not lines:
            return 0.0
        stated = lines[-1].strip()
        if stated.lower().rstrip(".") == "none":
            return float(not self.data.late)
        if not re.fullmatch(r"\d+(?:\s*,\s*\d+)*\.?", stated):
            return 0.0
        return float(sorted(map(int, re.findall(r"\d+", stated))) == self.data.late)


class NoneOfThemIsLateTaskset(vf.Taskset[LoanTask, vf.TasksetConfig]):
    def load(self) -> Iterator[LoanTask]:
        chance = random.Random(5)
        for _ in range(80):
            days, today = chance.randrange(7, 29, 7), chance.randrange(40, 90)
            oldest = chance.choice((days, days + 9, days + 20))
            numbers = sorted(chance.sample(range(100, 999), chance.randrange(3, 7)))
            ages = {number: chance.randrange(0, oldest + 1) for number in numbers}
            loans = "\n".join(f"loan {number}, lent on day {today - age}" for number, age in ages.items())
            late = [number for number, age in ages.items() if age > days]
            yield LoanTask(LoanData(prompt=ASK.format(days=days, today=today, loans=loans), late=late))


__all__ = ["NoneOfThemIsLateTaskset"]
