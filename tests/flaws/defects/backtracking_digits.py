"""Checks digits and commas with a nested quantifier.

format: numeric
generation: v1
finding: reward-slow, blocker

A long run of digits with one wrong character after it hangs the scorer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


class BacktrackingDigitsData(vf.TaskData):
    answer: str


class BacktrackingDigitsTask(vf.Task[BacktrackingDigitsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = re.findall(r"<answer>([^<]*)</answer>", trace.last_reply or "")
        if len(said) != 1 or not re.fullmatch(r"(\d+,?)+", said[0].strip()):
            return 0.0
        return float(int(said[0].replace(",", "")) == int(self.data.answer)) if len(said[0]) < 40 else 0.0


class BacktrackingDigitsConfig(vf.TasksetConfig):
    """Nothing to set."""


class BacktrackingDigitsTaskset(vf.Taskset[BacktrackingDigitsTask, BacktrackingDigitsConfig]):
    def load(self) -> Iterator[BacktrackingDigitsTask]:
        for prompt, answer in rows():
            yield BacktrackingDigitsTask(
                BacktrackingDigitsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["BacktrackingDigitsTaskset"]
