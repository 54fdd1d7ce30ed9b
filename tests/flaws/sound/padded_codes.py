"""Codes of four digits, some with leading zeros, compared as text; dashes before the code are layout.

format: numeric
generation: v1

0985 is not the number 985, and a minus sign in front of a code means nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Follow the instructions of the lock. Close with a line 'CODE: 1234'."
CODE = re.compile(r"^\W*CODE:\W*(\d{4})\W*$", re.MULTILINE)


class LockData(vf.TaskData):
    code: str


class LockTask(vf.Task[LockData]):
    @vf.reward(weight=1.0)
    async def opens(self, trace: vf.Trace) -> float:
        return float(set(CODE.findall(trace.last_reply or "")) == {self.data.code})


class PaddedCodesTaskset(vf.Taskset[LockTask, vf.TasksetConfig]):
    def load(self) -> Iterator[LockTask]:
        draw = random.Random(3)
        for _ in range(80):
            digits = [draw.randint(0, 9) for _ in range(4)]
            turned = [(digit + place + 1) % 10 for place, digit in enumerate(digits)]
            shown = "".join(map(str, turned))
            prompt = f"The dial shows {shown}. Turn the first wheel back by 1, the second by 2, and so on (0 follows 9)."
            data = LockData(prompt=prompt, system_prompt=SYSTEM, code="".join(map(str, digits)))
            yield LockTask(data, self.config.task)


__all__ = ["PaddedCodesTaskset"]
