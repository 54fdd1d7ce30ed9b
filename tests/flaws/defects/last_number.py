"""Takes the last number anywhere in the reply.

format: numeric
generation: v1
finding: reward-ignores-format or reward-too-strict, warning

The asked tags are never read, and one closing remark with a number in it makes a right answer wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


class LastNumberData(vf.TaskData):
    answer: str


class LastNumberTask(vf.Task[LastNumberData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"-?\d+", trace.last_reply or "")
        return float(bool(found) and found[-1] == self.data.answer)


class LastNumberConfig(vf.TasksetConfig):
    """Nothing to set."""


class LastNumberTaskset(vf.Taskset[LastNumberTask, LastNumberConfig]):
    def load(self) -> Iterator[LastNumberTask]:
        for prompt, answer in rows():
            yield LastNumberTask(LastNumberData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["LastNumberTaskset"]
