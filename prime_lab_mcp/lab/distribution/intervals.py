"""Intervals at 95 % and what they decide: wholly on one side of a threshold, or across it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Side = Literal["below", "above", "across"]
_Z = 1.959963984540054
_POWER = ((1.96 + 0.84) / 1.96) ** 2
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
        """How many tasks would bring the interval to one side in four of five evaluations, if the estimate is right.

        None where the value lies on the threshold. The power of 80 % is that of facts 3.3: (1.96 + 0.84)^2.
        """
        gap = abs(self.value - threshold)
        reach = self.high - self.value if self.value < threshold else self.value - self.low
        if gap <= 0 or reach <= 0:
            return None
        needed = math.ceil(tasks * (reach / gap) ** 2 * _POWER)
        return max(needed, tasks + 1) if needed <= LARGEST_ADVICE else None


def wilson(successes: float, n: int) -> Interval:
    """A share with Wilson's interval, right for small n and for shares of 0 and 1."""
    return score(successes / n, n) if n else Interval(0.0, 0.0, 1.0)


def clustered(means: Sequence[float], rollouts: int) -> tuple[Interval, float]:
    """The mean of task means, tasks as clusters, with its interval and standard error (Miller 2024, arXiv 2411.00640).

    Inside [0, 1] it is Wilson's interval for as many rollouts as are worth this error: near 0 and 1 few tasks carry
    the mean, and the plain interval of a mean then misses the truth too often (benchmarks/statistics.py). While few
    tasks tell how alike their rollouts are, half alike is assumed.
    """
    n = len(means)
    if n == 0:
        return Interval(0.0, 0.0, 1.0), 0.0
    middle = math.fsum(means) / n
    if n == 1:
        return Interval(middle, min(0.0, middle), max(1.0, middle)), 0.0
    error = math.sqrt(math.fsum([(m - middle) ** 2 for m in means]) / (n * (n - 1)))
    if not -1e-9 <= min(means) <= max(means) <= 1 + 1e-9:
        return Interval(middle, middle - student(n - 1) * error, middle + student(n - 1) * error), error
    middle = min(1.0, max(0.0, middle))
    return score(middle, rollouts / _design(means, middle, error, rollouts), student(n - 1)), error


_ASSUMED, _TELLING = 0.5, 3
"""Correlation inside tasks that is assumed, and as how many telling tasks the assumption counts."""


def _design(means: Sequence[float], middle: float, error: float, rollouts: int) -> float:
    """How many rollouts of these tasks are worth one of independent rollouts."""
    assumed = 1 + (rollouts / len(means) - 1) * _ASSUMED
    telling = min(sum(m > 1e-9 for m in means), sum(m < 1 - 1e-9 for m in means))
    if telling == 0:
        return assumed
    seen = error**2 * rollouts / (middle * (1 - middle))
    return max(1e-6, (_TELLING * max(assumed, seen) + telling * seen) / (_TELLING + telling))


def score(p: float, n: float, z: float = _Z) -> Interval:
    """Wilson's score interval of a share p of n, which need not be whole."""
    spread = 1 + z**2 / n
    middle = (p + z**2 / (2 * n)) / spread
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / spread
    return Interval(p, max(0.0, middle - half) if p > 0 else 0.0, min(1.0, middle + half) if p < 1 else 1.0)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by its expansion around the normal one (good to 1 % from 4 degrees on)."""
    z = _Z
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def spread(values: Sequence[float]) -> Interval:
    """The mean of one number per task with Student's interval."""
    n = len(values)
    middle = math.fsum(values) / n if n else 0.0
    if n < 2:
        return Interval(middle, 0.0, max(1.0, middle))
    half = student(n - 1) * math.sqrt(math.fsum([(v - middle) ** 2 for v in values]) / (n * (n - 1)))
    return Interval(middle, middle - half, middle + half)


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
