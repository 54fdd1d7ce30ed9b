"""The chi-square distribution's upper tail, without scipy: the toolchain's interpreter may have none."""

from __future__ import annotations

import math
from collections.abc import Sequence

_STEPS = 10_000


def uniform(counts: Sequence[int]) -> tuple[float, int]:
    """Pearson's statistic and degrees of freedom of counts against equal chances."""
    expected = sum(counts) / len(counts)
    return sum((c - expected) ** 2 for c in counts) / expected, len(counts) - 1


def survival(statistic: float, freedom: int) -> float:
    """P(X >= statistic) for a chi-square variable: the regularised upper incomplete gamma function Q(k/2, x/2).

    A series below the mean, a continued fraction (Lentz) above: Numerical Recipes 6.2. Good to about 1e-10.
    """
    if statistic <= 0 or freedom <= 0:
        return 1.0
    a, x = freedom / 2, statistic / 2
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    return 1.0 - scale * _series(a, x) if x < a + 1 else scale * _fraction(a, x)


def _series(a: float, x: float) -> float:
    term = total = 1 / a
    for n in range(1, _STEPS):
        term *= x / (a + n)
        total += term
        if term < total * 1e-15:
            break
    return total


def _fraction(a: float, x: float) -> float:
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    value = d
    for n in range(1, _STEPS):
        step = -n * (n - a)
        b += 2
        d = step * d + b
        d = 1 / (d if abs(d) > tiny else tiny)
        c = b + step / c
        c = c if abs(c) > tiny else tiny
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
