"""The regularised incomplete beta function, and the test of an F statistic by it. Pure Python: no numpy in a server."""

from __future__ import annotations

import math

_STEPS = 400
_TINY = 1e-300


def log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b): the chance that a Beta(a, b) variable is at most x."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta(a, b))
    # The fraction converges fast on the smaller side of the mean only.
    if x < (a + 1) / (a + b + 2):
        return min(1.0, front * _fraction(a, b, x) / a)
    return max(0.0, 1.0 - front * _fraction(b, a, 1 - x) / b)


def f_tail(value: float, between: int, within: int) -> float:
    """P(F >= value) for F of these degrees of freedom."""
    if value <= 0:
        return 1.0
    return incomplete_beta(within / 2, between / 2, within / (within + between * value))


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's method for the continued fraction of the incomplete beta function."""
    c, d = 1.0, 1.0 / _kept(1.0 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _kept(1.0 + term * d)
            c = _kept(1.0 + term / c)
            result *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    return result


def _kept(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
