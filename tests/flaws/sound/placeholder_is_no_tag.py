"""A placeholder in angle brackets stands for the answer, and is no tag.

format: numeric
generation: v1

The prompt shows the last line as 'RESULT: <result> km'. The last such line is read as a number and compared, and a
reply that writes the tags literally is not what the prompt asks for.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Work out how far the van drives on that day. Show your steps, and close with 'RESULT: <result> km'."
LINE = re.compile(r"^RESULT:\s*(\d{1,6})(?:\.0)?\s*km\.?\s*$", re.MULTILINE)


class VanData(vf.TaskData):
    answer: str


class VanTask(vf.Task[VanData]):
    @vf.reward(weight=1.0)
    async def distance(self, trace: vf.Trace) -> float:
        lines = LINE.findall(trace.last_reply or "")
        return float(len(set(lines)) == 1 and int(lines[0]) == int(self.data.answer))


class VanConfig(vf.TasksetConfig):
    num_tasks: int = 90
    seed: int = 61


class VanTaskset(vf.Taskset[VanTask, VanConfig]):
    def load(self) -> Iterator[VanTask]:
        rng = random.Random(self.config.seed)
        for n in range(self.config.num_tasks):
            tours, each, home = rng.randint(3, 9), rng.randint(12, 48), rng.randint(4, 30)
            prompt = (
                f"Van {n + 1} does {tours} tours of {each} km each, and {home} km to its garage in the evening. "
                "How far does it drive in all?"
            )
            yield VanTask(
                VanData(prompt=prompt, system_prompt=SYSTEM, answer=str(tours * each + home)), self.config.task
            )


__all__ = ["VanTaskset"]
