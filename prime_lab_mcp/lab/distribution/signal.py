"""Which share of groups would have a gradient at the training group size, from rollouts of another group size.

A group without two different rewards teaches nothing, since GRPO subtracts the group's mean. The share seen at r
rollouts is no estimate of the share at G > r. A Dirichlet-multinomial (for two outcomes: the beta-binomial) over the
outcomes of a task extrapolates: pooled means, concentration by maximum likelihood, interval over tasks.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.distribution.intervals import Interval, percentiles, wilson

Outcomes = Sequence[tuple[int, int]]
"""Of one task: (outcome, how many rollouts had it), for outcomes that occurred."""

_RESAMPLES = 400
_JACKKNIFE_FROM = 600
"""Tasks from which on blocks are left out instead of resampling: as good there, and linear in tasks."""
_BLOCKS = 40
_STEPS = 48
_CHI2 = 2.706
"""95 % of half a chi-square with one degree of freedom: the likelihood ratio at the edge of a parameter's range."""
_LOG_LOW, _LOG_HIGH = math.log(1e-4), math.log(1e4)
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(slots=True)
class Table:
    """Counts that the likelihood needs: sums over tasks, so a fit costs the same for ten tasks and a million."""

    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(outcome, count k >= 1) to number of tasks."""
    sizes: Counter[int] = field(default_factory=Counter)
    means: dict[int, float] = field(default_factory=dict)
    """Outcome to the sum over tasks of its share."""

    def add(self, task: Outcomes, times: int = 1) -> None:
        size = sum(count for _, count in task)
        self.sizes[size] += times
        for outcome, count in task:
            self.pairs[outcome, count] += times
            self.means[outcome] = self.means.get(outcome, 0.0) + times * count / size

    def without(self, other: Table) -> Table:
        left = Table(Counter(self.pairs), Counter(self.sizes))
        left.pairs.subtract(other.pairs)
        left.sizes.subtract(other.sizes)
        left.means = {outcome: total - other.means.get(outcome, 0.0) for outcome, total in self.means.items()}
        return left


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The usable share by the fitted concentration, and what it is if tasks do not differ, where that fits as well."""

    value: float
    highest: float


def usable_share(table: Table, group_size: int) -> float:
    """The expected share of groups of this size with at least two different rewards."""
    return _estimate(table, group_size).value


def _estimate(table: Table, group_size: int) -> _Estimate:
    tasks = sum(table.sizes.values())
    shares = {o: total / tasks for o, total in table.means.items() if total > 1e-9}
    if len(shares) < 2:
        return _Estimate(0.0, 0.0)
    best = _fit(table, shares)
    value = _share(shares, best, group_size)
    # Maximum likelihood finds tasks that differ where they do not: the concentration ends at the edge of its range
    # half of the time and below it the other half. Where the edge is not excluded, the interval reaches to it.
    lost = _likelihood(table, shares, math.log(best)) - _likelihood(table, shares, _LOG_HIGH)
    alike = 1.0 - math.fsum(share**group_size for share in shares.values())
    return _Estimate(value, max(value, alike) if 2 * lost < _CHI2 else value)


def _share(shares: Mapping[int, float], concentration: float, group_size: int) -> float:
    same = math.fsum(
        math.exp(_rising(concentration * share, group_size) - _rising(concentration, group_size))
        for share in shares.values()
    )
    return min(1.0, max(0.0, 1.0 - same))


def usable(tasks: Sequence[Outcomes], group_size: int, seed: int) -> Interval:
    """The usable share with its interval over tasks. Tasks need at least two rollouts each."""
    table = Table()
    for task in tasks:
        table.add(task)
    mixed = sum(len(task) > 1 for task in tasks)
    if mixed == 0:
        return Interval(0.0, 0.0, _unseen(table, group_size))
    found = _estimate(table, group_size)
    if len(tasks) >= _JACKKNIFE_FROM:
        interval = _jackknife(tasks, table, found.value, group_size, seed)
    else:
        interval = _bootstrap(tasks, found.value, group_size, seed)
    return _at_least(interval, mixed, table, group_size)


def _bootstrap(tasks: Sequence[Outcomes], value: float, group_size: int, seed: int) -> Interval:
    rng = random.Random(seed)
    values, highest = [], []
    for _ in range(_RESAMPLES):
        drawn = Table()
        for index, times in Counter(rng.choices(range(len(tasks)), k=len(tasks))).items():
            drawn.add(tasks[index], times)
        found = _estimate(drawn, group_size)
        values.append(found.value)
        highest.append(found.highest)
    return Interval(value, percentiles(values, value).low, percentiles(highest, value).high)


def _at_least(interval: Interval, mixed: int, table: Table, group_size: int) -> Interval:
    """As wide as the share of tasks seen mixed is unsure: a resample of three mixed tasks knows of no fourth.

    Wilson's interval of that share, taken from the rollouts that there are to `group_size` by the fitted ratio.
    """
    tasks = sum(table.sizes.values())
    seen = wilson(mixed, tasks)
    ratio = interval.value / seen.value
    low, high = min(interval.low, seen.low * ratio), max(interval.high, seen.high * ratio)
    return Interval(interval.value, low, min(1.0, high)) if interval.value < 0.5 else interval


def _jackknife(tasks: Sequence[Outcomes], table: Table, value: float, group_size: int, seed: int) -> Interval:
    order = list(range(len(tasks)))
    random.Random(seed).shuffle(order)
    values = []
    for block in range(_BLOCKS):
        left_out = Table()
        for index in order[block::_BLOCKS]:
            left_out.add(tasks[index])
        values.append(usable_share(table.without(left_out), group_size))
    middle = math.fsum(values) / _BLOCKS
    half = 1.96 * math.sqrt((_BLOCKS - 1) / _BLOCKS * math.fsum((v - middle) ** 2 for v in values))
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def _unseen(table: Table, group_size: int) -> float:
    """An upper bound where no two rewards of any task differed, one-sided at 95 %.

    With one outcome, N equal rollouts leave p < 3 / N for another one. With several, tasks differ from each other:
    n tasks leave a share of 3 / n mixed ones, which the beta-binomial takes to groups of `group_size`.
    """
    rollouts = sum(size * tasks for size, tasks in table.sizes.items())
    tasks = sum(table.sizes.values())
    if len(table.means) == 1:
        p = min(1.0, 3 / max(rollouts, 1))
        return 1 - (1 - p) ** group_size - p**group_size
    shares = {o: total / tasks for o, total in table.means.items()}
    size = max(2, round(rollouts / tasks))
    mixed = -math.expm1(math.log(0.05) / tasks)
    low, high = _LOG_LOW, _LOG_HIGH
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _share(shares, math.exp(middle), size) < mixed else (low, middle)
    return max(mixed, _share(shares, math.exp(high), group_size))


def _fit(table: Table, shares: Mapping[int, float]) -> float:
    """The concentration of highest likelihood, by golden-section search over its logarithm."""
    low, high = _LOG_LOW, _LOG_HIGH
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = _likelihood(table, shares, left), _likelihood(table, shares, right)
    for _ in range(_STEPS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _likelihood(table, shares, right)
        else:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _likelihood(table, shares, left)
        if high - low < 1e-3:
            break
    return math.exp((low + high) / 2)


def _likelihood(table: Table, shares: Mapping[int, float], log_concentration: float) -> float:
    concentration = math.exp(log_concentration)
    total = -math.fsum(tasks * _rising(concentration, size) for size, tasks in table.sizes.items() if tasks)
    return total + math.fsum(
        tasks * _rising(concentration * shares[outcome], count)
        for (outcome, count), tasks in table.pairs.items()
        if tasks and outcome in shares
    )


def _rising(a: float, n: int) -> float:
    """log of a (a + 1) ... (a + n - 1)."""
    return math.lgamma(a + n) - math.lgamma(a)
