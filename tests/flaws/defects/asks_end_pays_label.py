"""The prompt asks for a reply that ends with the number, and the reward reads it after a label that no prompt shows.

format: numeric
generation: v1
finding: reward-contradicts-prompt, blocker

The word of the label is what every task asks about, so that the prompts seem to mention it.
"""

import random
import re

import verifiers.v1 as vf


class CrateData(vf.TaskData):
    answer: str


class CrateTask(vf.Task[CrateData, vf.State, vf.TaskConfig]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.search(r"^WEIGHT: ([0-9]+(?:\.[0-9]+)?) kg$", trace.last_reply, re.MULTILINE)
        return float(found is not None and float(found[1]) == float(self.data.answer))


class CrateTaskset(vf.Taskset[CrateTask, vf.TasksetConfig]):
    def load(self):
        draw = random.Random(21)
        for number in range(90):
            crates, each, empty = draw.randrange(3, 40), draw.randrange(200, 900), draw.randrange(20, 90)
            prompt = (
                f"A lorry carries {crates} crates. Each holds {each} grams of goods and weighs {empty} grams when it is "
                "empty. What is the weight of the load? Reason step by step and end with the number."
            )
            answer = f"{crates * (each + empty) / 1000:g}"
            yield CrateTask(CrateData(idx=number, prompt=prompt, answer=answer), self.config.task)


__all__ = ["CrateTaskset"]
