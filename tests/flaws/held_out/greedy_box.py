"""Reads the box up to the first closing brace.

format: latex
generation: v1
finding: reward-gold-fails, blocker

Every answer with a fraction in it is cut in half and never paid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import verifiers.v1 as vf

SYSTEM = "Simplify. Put the final answer in \\boxed{}."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        value = Fraction(n + 2, 2 * (n % 9) + 5)
        whole = value.denominator == 1
        factor = n % 4 + 2
        asked = f"Write {(n + 2) * factor}/{(2 * (n % 9) + 5) * factor} in lowest terms."
        yield asked, str(value.numerator) if whole else rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


class GreedyBoxData(vf.TaskData):
    answer: str


class GreedyBoxTask(vf.Task[GreedyBoxData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"\\boxed\{(.*?)\}", trace.last_reply or "")
        return float(len(found) == 1 and found[0].strip() == self.data.answer)


class GreedyBoxConfig(vf.TasksetConfig):
    """Nothing to set."""


class GreedyBoxTaskset(vf.Taskset[GreedyBoxTask, GreedyBoxConfig]):
    def load(self) -> Iterator[GreedyBoxTask]:
        for prompt, answer in rows():
            yield GreedyBoxTask(GreedyBoxData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["GreedyBoxTaskset"]
