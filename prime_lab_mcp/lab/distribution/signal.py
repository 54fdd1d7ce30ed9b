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

from prime_lab_mcp.lab.distribution.intervals import Interval, percentiles

Outcomes = Sequence[tuple[int, int]]
"""Of one task: (outcome, how many rollouts had it), for outcomes that occurred."""

_RESAMPLES = 400
_JACKKNIFE_FROM = 600
"""Tasks from which on blocks are left out instead of resampling: as good there, and linear in tasks."""
_BLOCKS = 40
_STEPS = 48
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


def usable_share(table: Table, group_size: int) -> float:
    """The expected share of groups of this size with at least two different rewards."""
    tasks = sum(table.sizes.values())
    shares = {o: total / tasks for o, total in table.means.items() if total > 1e-9}
    if len(shares) < 2:
        return 0.0
    concentration = _fit(table, shares)
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
    if all(len(task) == 1 for task in tasks):
        return Interval(0.0, 0.0, _unseen(table, group_size))
    value = usable_share(table, group_size)
    if len(tasks) >= _JACKKNIFE_FROM:
        return _jackknife(tasks, table, value, group_size, seed)
    rng = random.Random(seed)
    values = []
    for _ in range(_RESAMPLES):
        drawn = Table()
        for index, times in Counter(rng.choices(range(len(tasks)), k=len(tasks))).items():
            drawn.add(tasks[index], times)
        values.append(usable_share(drawn, group_size))
    return percentiles(values, value)


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
    """An upper bound where no two rewards of any task differed: N equal rollouts leave p < 3 / N for another one."""
    rollouts = sum(size * tasks for size, tasks in table.sizes.items())
    tasks = sum(table.sizes.values())
    if len(table.means) > 1:
        # Tasks differ from each other and never within: the bound is on the share of mixed tasks.
        return min(1.0, 3 / max(tasks, 1))
    p = min(1.0, 3 / max(rollouts, 1))
    return 1 - (1 - p) ** group_size - p**group_size


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
