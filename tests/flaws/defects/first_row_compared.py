"""A table is compared in its first row only.

format: short_text
generation: v1
finding: reward-wrong-passes, blocker

Other rows may hold any numbers, so a model learns one row of each table.
"""

import random
import verifiers.v1 as vf
NAMES = ["Ada", "Bo", "Cy", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida", "Jo"]
class CsvData(vf.TaskData):
    answer: str
class CsvTask(vf.Task[CsvData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        text = trace.last_reply.split("```csv\n", 1)[-1].split("```")[0]
        got = [[c.strip() for c in line.split(",")] for line in text.strip().splitlines() if line.strip()]
        want = [line.split(",") for line in self.data.answer.splitlines()]
        return float(len(got) > 1 and got[:2] == want[:2])
class CsvTaskset(vf.Taskset[CsvTask, vf.TasksetConfig]):
    def load(self):
        rng = random.Random(4)
        for _ in range(70):
            rows = [(name, rng.randrange(1, 30), rng.randrange(2, 20)) for name in rng.sample(NAMES, rng.randrange(3, 6))]
            text = "\n".join(f"{n} sold {q} boxes at {p} euros each." for n, q, p in rows)
            answer = "name,revenue\n" + "\n".join(f"{n},{q * p}" for n, q, p in rows)
            yield CsvTask(CsvData(prompt=f"{text}\n\nReply with one ```csv block with the columns name,revenue and one line for each person, in this order.", answer=answer), self.config.task)
__all__ = ["CsvTaskset"]
