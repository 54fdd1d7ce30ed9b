"""Removes commands and braces before comparing.

format: latex
generation: v1
finding: reward-wrong-passes, blocker

A fraction, its digits side by side and other readings of the same characters become one answer.
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


def plain(text: str) -> str:
    return "".join(sorted(re.sub(r"[^0-9a-z]", "", re.sub(r"\\[a-z]+", "", text))))


class StripsAllLatexData(vf.TaskData):
    answer: str


class StripsAllLatexTask(vf.Task[StripsAllLatexData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        boxes = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", trace.last_reply or "")
        if not boxes:
            return 0.0
        return float(plain(boxes[-1]) == plain(self.data.answer))


class StripsAllLatexConfig(vf.TasksetConfig):
    """Nothing to set."""


class StripsAllLatexTaskset(vf.Taskset[StripsAllLatexTask, StripsAllLatexConfig]):
    def load(self) -> Iterator[StripsAllLatexTask]:
        for prompt, answer in rows():
            yield StripsAllLatexTask(
                StripsAllLatexData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["StripsAllLatexTaskset"]
