"""Averages over the tags of the reply, of which there may be none.

format: numeric
generation: v1
finding: reward-nonfinite, blocker
requires: numpy

The mean of an empty array is NaN, which poisons the whole group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


class MeanOfNothingData(vf.TaskData):
    answer: str


class MeanOfNothingTask(vf.Task[MeanOfNothingData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>\s*(-?\d+)\s*</answer>", trace.last_reply or "")
        return float(np.mean([text == self.data.answer for text in found[-1:]]))


class MeanOfNothingConfig(vf.TasksetConfig):
    """Nothing to set."""


class MeanOfNothingTaskset(vf.Taskset[MeanOfNothingTask, MeanOfNothingConfig]):
    def load(self) -> Iterator[MeanOfNothingTask]:
        for prompt, answer in rows():
            yield MeanOfNothingTask(
                MeanOfNothingData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["MeanOfNothingTaskset"]
