"""Fractions in lowest terms, compared as numbers.

format: latex
generation: v1

Both sides are read by one grammar, decimals aside, and never evaluated.
"""

from __future__ import annotations

import math
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


def boxed(reply: str) -> str:
    """The content of the last box outside of thinking when all of them agree."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = set(re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", said))
    return found.pop().strip().rstrip(".") if len(found) == 1 else ""


def value(text: str) -> Fraction | None:
    """The fraction that a text is; only lowest terms count."""
    found = re.fullmatch(r"(-?)\\d?frac\{(\d{1,6})\}\{(\d{1,6})\}|(-?\d{1,6})/(\d{1,6})|(-?\d{1,6})(?:\.0)?", text)
    if found is None:
        return None
    if found[6]:
        return Fraction(int(found[6]))
    top, below = (int(found[1] + found[2]), int(found[3])) if found[2] else (int(found[4]), int(found[5]))
    return Fraction(top, below) if below > 1 and math.gcd(top, below) == 1 else None


class MathFractionsData(vf.TaskData):
    answer: str


class MathFractionsTask(vf.Task[MathFractionsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = value(boxed(trace.last_reply or ""))
        return float(said is not None and said == value(self.data.answer))


class MathFractionsConfig(vf.TasksetConfig):
    """Nothing to set."""


class MathFractionsTaskset(vf.Taskset[MathFractionsTask, MathFractionsConfig]):
    def load(self) -> Iterator[MathFractionsTask]:
        for prompt, answer in rows():
            yield MathFractionsTask(
                MathFractionsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["MathFractionsTaskset"]
