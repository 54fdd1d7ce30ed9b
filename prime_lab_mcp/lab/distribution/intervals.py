"""Intervals at 95 % and what they decide: wholly on one side of a threshold, or across it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Side = Literal["below", "above", "across"]
_Z = 1.959963984540054
LARGEST_ADVICE = 20_000
"""More tasks than this are not advised: the value lies on the threshold, and no number would decide."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float

    def side(self, threshold: float) -> Side:
        """Where the interval lies; touching the threshold counts as across."""
        if self.high < threshold:
            return "below"
        return "above" if self.low > threshold else "across"

    def tasks_to_decide(self, threshold: float, tasks: int) -> int | None:
        """How many tasks would bring the interval to one side, if the estimate stays; None where none would."""
        gap = abs(self.value - threshold)
        reach = self.high - self.value if self.value < threshold else self.value - self.low
        if gap <= 0 or reach <= 0:
            return None
        needed = math.ceil(tasks * (reach / gap) ** 2 * 1.1)
        return max(needed, tasks + 1) if needed <= LARGEST_ADVICE else None


def wilson(successes: float, n: int) -> Interval:
    """A share with Wilson's interval, right for small n and for shares of 0 and 1."""
    if n == 0:
        return Interval(0.0, 0.0, 1.0)
    p = successes / n
    spread = 1 + _Z**2 / n
    middle = (p + _Z**2 / (2 * n)) / spread
    half = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2)) / spread
    return Interval(p, max(0.0, middle - half) if successes else 0.0, min(1.0, middle + half) if successes < n else 1.0)


def clustered(means: Sequence[float], rollouts: int) -> tuple[Interval, float]:
    """The mean of task means with its interval and standard error, tasks as clusters (Miller 2024, arXiv 2411.00640).

    Where every task has the same mean the error is 0; then 3 / rollouts bounds what was not seen, to both sides.
    """
    n = len(means)
    if n == 0:
        return Interval(0.0, 0.0, 1.0), 0.0
    middle = math.fsum(means) / n
    if n == 1:
        return Interval(middle, 0.0, 1.0), 0.0
    error = math.sqrt(math.fsum((m - middle) ** 2 for m in means) / (n * (n - 1)))
    half = _Z * error if error > 1e-12 else 3 / max(rollouts, 1)
    return Interval(middle, middle - half, middle + half), error


def percentiles(values: Sequence[float], value: float) -> Interval:
    """The 2.5 and 97.5 percentiles of bootstrap values around an estimate."""
    ordered = sorted(values)
    last = len(ordered) - 1

    def at(share: float) -> float:
        place = share * last
        below = math.floor(place)
        above = min(below + 1, last)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return Interval(value, min(value, at(0.025)), max(value, at(0.975)))
