"""Distributions and 95 % intervals: Student's t, F, Beta, beta-binomial, binomial and chi-square.

The module uses only `math.lgamma`, because importing scipy takes a server process longer than all computations here.
An `Interval` says whether an estimate lies on one side of a threshold or may lie on either side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

Cells = Mapping[tuple[int, int], int]
"""Number of tasks for each pair (rollouts of the task, rollouts with the outcome)."""

NORMAL_975 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""
LOG_LOW, LOG_HIGH = math.log(1e-4), math.log(1e4)
"""Range of the logarithm of the concentration: from tasks that always or never succeed to tasks of equal difficulty."""

_FRACTION_STEPS = 400
_TINY = 1e-300
_HALVINGS = 60
_NEARLY_NORMAL = 1_000
_GOLDEN = (math.sqrt(5) - 1) / 2
_GOLDEN_STEPS = 48


def log_beta(a: float, b: float) -> float:
    """Return the logarithm of the beta function B(a, b)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def log_rising(a: float, n: int) -> float:
    """Return the logarithm of the rising factorial a (a + 1) ... (a + n - 1)."""
    return math.lgamma(a + n) - math.lgamma(a) if n else 0.0


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return I_x(a, b), the probability that a Beta(a, b) variable is at most x."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta(a, b))
    # The continued fraction converges fast only below the mean.
    if x < (a + 1) / (a + b + 2):
        return min(1.0, front * _fraction(a, b, x) / a)
    return max(0.0, 1.0 - front * _fraction(b, a, 1 - x) / b)


def f_tail(value: float, between: int, within: int) -> float:
    """Return P(F >= value) for an F distribution with `between` and `within` degrees of freedom."""
    if value <= 0:
        return 1.0
    return incomplete_beta(within / 2, between / 2, within / (within + between * value))


@cache
def student_975(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution. Raises ValueError below one degree of freedom."""
    if freedom < 1:
        raise ValueError(f"Student's t has at least one degree of freedom, not {freedom}")
    if freedom == 1:
        return math.tan(math.pi * (0.975 - 0.5))
    if freedom >= _NEARLY_NORMAL:
        return _student_expansion(freedom)
    low, high = NORMAL_975, 4.5
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        both_tails = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + middle**2))
        low, high = (middle, high) if both_tails > 0.05 else (low, middle)
    return (low + high) / 2


def _student_expansion(v: int) -> float:
    """Approximate the 97.5 % quantile for `v` degrees of freedom (Abramowitz and Stegun 26.7.5)."""
    z = NORMAL_975
    return z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)


def fit_concentration(
    cells: Cells, mean: float, log_low: float = LOG_LOW, log_high: float = LOG_HIGH
) -> tuple[float, float]:
    """Return the concentration a + b with the highest beta-binomial likelihood, and its log-likelihood.

    The mean a / (a + b) is given. The function runs a golden-section search over the logarithm of the concentration,
    between `log_low` and `log_high`.
    """
    low, high = log_low, log_high
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = (beta_binomial_likelihood(cells, mean, math.exp(x)) for x in (left, right))
    for _ in range(_GOLDEN_STEPS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = beta_binomial_likelihood(cells, mean, math.exp(right))
        else:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = beta_binomial_likelihood(cells, mean, math.exp(left))
        if high - low < 1e-3:
            break
    concentration = math.exp((low + high) / 2)
    return concentration, beta_binomial_likelihood(cells, mean, concentration)


def beta_binomial_likelihood(cells: Cells, mean: float, concentration: float) -> float:
    """Return the beta-binomial log-likelihood of the counts.

    The binomial coefficients are left out, because they do not depend on the parameters.
    """
    hit, missed = concentration * mean, concentration * (1 - mean)
    return math.fsum(
        [
            n * (log_rising(hit, count) + log_rising(missed, size - count) - log_rising(concentration, size))
            for (size, count), n in cells.items()
            if n
        ]
    )


def _fraction(a: float, b: float, x: float) -> float:
    """Compute the continued fraction of the incomplete beta function by Lentz's method."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _FRACTION_STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _not_zero(1.0 + term * d)
            c = _not_zero(1.0 + term / c)
            result *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    return result


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


_STEPS = 10_000


def binomial_tail(hits: int, number: int, chance: float) -> float:
    """Return the probability of at least `hits` successes in `number` trials with this chance."""
    return math.fsum(math.comb(number, k) * chance**k * (1 - chance) ** (number - k) for k in range(hits, number + 1))


def chi_square_uniform(counts: Sequence[int]) -> tuple[float, int]:
    """Return Pearson's chi-square statistic and its degrees of freedom for counts that should be equal."""
    expected = sum(counts) / len(counts)
    return sum((c - expected) ** 2 for c in counts) / expected, len(counts) - 1


def chi_square_survival(statistic: float, freedom: int) -> float:
    """Return P(X >= statistic) for a chi-square variable with `freedom` degrees of freedom.

    This is the regularised upper incomplete gamma function Q(freedom / 2, statistic / 2). A series computes it for
    small values, and a continued fraction for large ones (Numerical Recipes, section 6.2). The error is about 1e-10.
    """
    if statistic <= 0 or freedom <= 0:
        return 1.0
    a, x = freedom / 2, statistic / 2
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    return 1.0 - scale * _series(a, x) if x < a + 1 else scale * _chi_square_fraction(a, x)


def _series(a: float, x: float) -> float:
    """Compute the series of the incomplete gamma function, which converges fast for x below a + 1."""
    term = total = 1 / a
    for n in range(1, _STEPS):
        term *= x / (a + n)
        total += term
        if term < total * 1e-15:
            break
    return total


def _chi_square_fraction(a: float, x: float) -> float:
    """Compute the continued fraction of the incomplete gamma function by Lentz's method."""
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


Side = Literal["below", "above", "across"]
_POWER = ((1.96 + 0.84) / 1.96) ** 2
LARGEST_ADVISED_SAMPLE = 20_000
"""Upper limit of the advised number of tasks: an estimate that needs more lies practically on the threshold."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def side(self, threshold: float) -> Side:
        """Return the side of the threshold on which the interval lies; `across` if it contains the threshold."""
        if self.high < threshold:
            return "below"
        return "above" if self.low > threshold else "across"

    def tasks_to_decide(self, threshold: float, tasks: int) -> int | None:
        """Return the number of tasks that would decide on which side of the threshold the true value lies.

        With so many tasks the interval lies on one side in four of five evaluations, if the estimate is right. The
        factor for this power of 80 % is explained in docs/validation.md, Reward distributions. `tasks` is the present
        number of tasks. None if the estimate lies on the threshold or more than `LARGEST_ADVISED_SAMPLE` are needed.
        """
        gap = abs(self.value - threshold)
        reach = self.high - self.value if self.value < threshold else self.value - self.low
        if gap <= 0 or reach <= 0:
            return None
        needed = math.ceil(tasks * (reach / gap) ** 2 * _POWER)
        return max(needed, tasks + 1) if needed <= LARGEST_ADVISED_SAMPLE else None


class MeanOfTasks:
    """Computes the mean of the tasks' mean rewards while rollouts are added one by one. A verdict states this mean."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def add(self, task: str, reward: float) -> None:
        """Add the reward of one rollout of a task."""
        total, number = self._sums.get(task, (0.0, 0))
        self._sums[task] = (total + reward, number + 1)

    @property
    def value(self) -> float | None:
        """The mean of the task means; None before a rollout was added."""
        if not self._sums:
            return None
        return math.fsum(total / number for total, number in self._sums.values()) / len(self._sums)


def wilson_interval(successes: float, n: int) -> Interval:
    """Return successes / n with Wilson's interval, which is valid for small n and for shares of 0 and 1."""
    return score_interval(successes / n, n) if n else Interval(0.0, 0.0, 1.0)


def clustered_interval(means: Sequence[float], rollouts: int) -> tuple[Interval, float]:
    """Return the mean of the task means with its interval, and the standard error.

    Tasks are clusters of rollouts (Miller 2024, arXiv 2411.00640). For means in [0, 1] the interval is Wilson's for
    the effective number of rollouts: near 0 and 1 few tasks determine the mean, and Student's interval misses the true
    value too often (benchmarks/statistics.py). Where only few tasks have a mean above 0, or only few a mean below 1, a
    correlation of one half inside tasks is assumed.
    """
    n = len(means)
    if n == 0:
        return Interval(0.0, 0.0, 1.0), 0.0
    middle = math.fsum(means) / n
    if n == 1:
        return Interval(middle, min(0.0, middle), max(1.0, middle)), 0.0
    error = math.sqrt(math.fsum([(m - middle) ** 2 for m in means]) / (n * (n - 1)))
    if not -1e-9 <= min(means) <= max(means) <= 1 + 1e-9:
        return Interval(middle, middle - student_975(n - 1) * error, middle + student_975(n - 1) * error), error
    middle = min(1.0, max(0.0, middle))
    return score_interval(middle, rollouts / _design(means, middle, error, rollouts), student_975(n - 1)), error


_ASSUMED, _ASSUMED_WEIGHT = 0.5, 3
"""The assumed correlation inside tasks, and the number of informative tasks that the assumption counts as."""


def _design(means: Sequence[float], middle: float, error: float, rollouts: int) -> float:
    """Return the design effect: the number of these rollouts that are worth one independent rollout."""
    assumed = 1 + (rollouts / len(means) - 1) * _ASSUMED
    informative = min(sum(m > 1e-9 for m in means), sum(m < 1 - 1e-9 for m in means))
    if informative == 0:
        return assumed
    observed = error**2 * rollouts / (middle * (1 - middle))
    weighted = _ASSUMED_WEIGHT * max(assumed, observed) + informative * observed
    return max(1e-6, weighted / (_ASSUMED_WEIGHT + informative))


def score_interval(p: float, n: float, z: float = NORMAL_975) -> Interval:
    """Return Wilson's score interval for the share p of n trials. n need not be an integer; z is the normal
    quantile."""
    spread = 1 + z**2 / n
    middle = (p + z**2 / (2 * n)) / spread
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / spread
    return Interval(p, max(0.0, middle - half) if p > 0 else 0.0, min(1.0, middle + half) if p < 1 else 1.0)


def difference_half_width(first: float, last: float, tasks: int) -> float:
    """Return half the width of the 95 % interval of the difference of two means in [0, 1], each over so many tasks.

    The means count as independent, and a mean m has a variance of at most m(1-m) for each task. Agresti and Caffo
    (2000): one added success and failure per mean gives means of 0 and 1 a variance above 0.
    """
    spread = sum((p := (mean * tasks + 1) / (tasks + 2)) * (1 - p) / (tasks + 2) for mean in (first, last))
    return NORMAL_975 * math.sqrt(spread)


def least_shown_rise(mean: float, tasks: int) -> float:
    """Return the smallest rise of a mean in [0, 1] that evaluations of so many tasks would show; 1 if none would."""
    steps = 100
    for step in range(1, steps + 1):
        rise = step / steps
        if mean + rise <= 1 and rise > difference_half_width(mean, mean + rise, tasks):
            return rise
    return 1.0


def student_interval(values: Sequence[float]) -> Interval:
    """Return the mean of the values with Student's interval. Each value belongs to one task."""
    n = len(values)
    middle = math.fsum(values) / n if n else 0.0
    if n < 2:
        return Interval(middle, 0.0, max(1.0, middle))
    half = student_975(n - 1) * math.sqrt(math.fsum([(v - middle) ** 2 for v in values]) / (n * (n - 1)))
    return Interval(middle, middle - half, middle + half)


def bootstrap_interval(values: Sequence[float], value: float) -> Interval:
    """Return the estimate `value` with the interval from the 2.5 to the 97.5 percentile of bootstrap `values`."""
    ordered = sorted(values)
    last = len(ordered) - 1

    def at(share: float) -> float:
        place = share * last
        below = math.floor(place)
        above = min(below + 1, last)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return Interval(value, min(value, at(0.025)), max(value, at(0.975)))
