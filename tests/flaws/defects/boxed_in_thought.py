"""Looks for the gold in any box of the reply.

format: latex
generation: v1
finding: reward-hackable, warning

Boxes in the thought count, so the policy boxes one guess after the other there.
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


class BoxedInThoughtData(vf.TaskData):
    answer: str


class BoxedInThoughtTask(vf.Task[BoxedInThoughtData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        boxes = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", trace.last_reply or "")
        return float(self.data.answer in [box.replace(" ", "") for box in boxes])


class BoxedInThoughtConfig(vf.TasksetConfig):
    """Nothing to set."""


class BoxedInThoughtTaskset(vf.Taskset[BoxedInThoughtTask, BoxedInThoughtConfig]):
    def load(self) -> Iterator[BoxedInThoughtTask]:
        for prompt, answer in rows():
            yield BoxedInThoughtTask(
                BoxedInThoughtData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["BoxedInThoughtTaskset"]
