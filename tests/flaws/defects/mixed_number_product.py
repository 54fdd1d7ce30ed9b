"""Reads a mixed number as a product.

format: latex
generation: v1
finding: reward-wrong-passes, blocker

The parts of the text are multiplied, on both sides: 4 7/12 is read as 28/12, so that 7/3 is paid for it, and 55/12,
which it is, is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from math import gcd, prod

import verifiers.v1 as vf

SYSTEM = "Work out the length. Put it in \\boxed{}, as a mixed number such as 2 1/3."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(90):
        whole, below = n // 7 + 2, (5, 7, 8, 9, 11, 12, 13)[n % 7]
        above = next(top for top in range(n % (below - 1) + 1, 99) if gcd(top, below) == 1) % below
        yield (
            f"A board of {whole + 1} m is cut by {Fraction(below - above, below)} m. How long is the rest, in metres?",
            f"{whole} {above}/{below}",
        )


def value(text: str) -> Fraction | None:
    """What a text of numbers and fractions is worth."""
    try:
        return prod(Fraction(part) for part in text.split()) if text.strip() else None
    except (ValueError, ZeroDivisionError):
        return None


class MixedNumberData(vf.TaskData):
    answer: str


class MixedNumberTask(vf.Task[MixedNumberData]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        boxes = re.findall(r"\\boxed\{([^{}]*)\}", trace.last_reply or "")
        said = value(boxes[-1]) if len(boxes) == 1 else None
        return float(said is not None and said == value(self.data.answer))


class MixedNumberTaskset(vf.Taskset[MixedNumberTask, vf.TasksetConfig]):
    def load(self) -> Iterator[MixedNumberTask]:
        for prompt, answer in rows():
            yield MixedNumberTask(MixedNumberData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["MixedNumberTaskset"]
