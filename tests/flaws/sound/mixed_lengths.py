"""Mixed numbers, compared by value.

format: latex
generation: v1

The whole part and the fraction are added, so 4 7/12 and 55/12 are one number, and no other is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from math import gcd

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
    """A fraction, or a whole number and a proper fraction."""
    try:
        parts = [Fraction(part) for part in text.split()]
    except (ValueError, ZeroDivisionError):
        return None
    if len(parts) == 2 and parts[0].denominator == 1 and 0 < parts[1] < 1:
        return parts[0] + parts[1] if parts[0] >= 0 else parts[0] - parts[1]
    return parts[0] if len(parts) == 1 else None


class MixedLengthData(vf.TaskData):
    answer: str


class MixedLengthTask(vf.Task[MixedLengthData]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        boxes = re.findall(r"\\boxed\{([^{}]*)\}", trace.last_reply or "")
        said = value(boxes[-1]) if len(boxes) == 1 else None
        return float(said is not None and said == value(self.data.answer))


class MixedLengthTaskset(vf.Taskset[MixedLengthTask, vf.TasksetConfig]):
    def load(self) -> Iterator[MixedLengthTask]:
        for prompt, answer in rows():
            yield MixedLengthTask(MixedLengthData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["MixedLengthTaskset"]
