"""Which share of groups would have a gradient at the training group size, from rollouts of another group size.

A group without two different rewards teaches nothing, since GRPO subtracts the group's mean. Where every task has G
rollouts, their groups are counted. The share seen at r rollouts is no estimate of the share at G > r: there a
beta-binomial extrapolates, of each outcome by itself, since one may divide the tasks (no reward at all) while others
vary inside them (partial credit). The interval is over tasks, and around a second model where that fits as well.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.distribution.extrapolate import LOG_HIGH, LOG_LOW, Beta, all_of, beta, kinds
from prime_lab_mcp.lab.distribution.intervals import Interval, percentiles, score, wilson

Outcomes = Sequence[tuple[int, int]]
"""Of one task: (outcome, how many rollouts had it), for outcomes that occurred."""

_RESAMPLES = 400
_JACKKNIFE_FROM = 600
"""Tasks from which on blocks are left out instead of resampling: as good there, and linear in tasks."""
_BLOCKS = 40
_STEPS = 48
_WORSE, _BETTER = -1.92, 3.84
"""By how much the log likelihood of two kinds of tasks may lie below that of a Beta to count, and from which gain on
the Beta is given up: a likelihood ratio of 3.84, and twice that for the parameter more."""


@dataclass(slots=True)
class Table:
    """Counts that the likelihood needs: sums over tasks, so a fit costs the same for ten tasks and a million."""

    pairs: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """(outcome, rollouts of the task, count k >= 1) to number of tasks."""
    sizes: Counter[int] = field(default_factory=Counter)
    means: dict[int, float] = field(default_factory=dict)
    """Outcome to the sum over tasks of its share."""

    def add(self, task: Outcomes, times: int = 1) -> None:
        size = sum(count for _, count in task)
        self.sizes[size] += times
        for outcome, count in task:
            self.pairs[outcome, size, count] += times
            self.means[outcome] = self.means.get(outcome, 0.0) + times * count / size

    def without(self, other: Table) -> Table:
        left = Table(Counter(self.pairs), Counter(self.sizes))
        left.pairs.subtract(other.pairs)
        left.sizes.subtract(other.sizes)
        left.means = {outcome: total - other.means.get(outcome, 0.0) for outcome, total in self.means.items()}
        return left

    def cells(self) -> dict[int, dict[tuple[int, int], int]]:
        """Of each outcome: (rollouts, count k >= 0) to number of tasks."""
        found: dict[int, dict[tuple[int, int], int]] = {}
        for (outcome, size, count), tasks in self.pairs.items():
            if tasks:
                found.setdefault(outcome, {})[size, count] = tasks
        for of in found.values():
            missed = Counter(self.sizes)
            for (size, _), tasks in of.items():
                missed[size] -= tasks
            of.update({(size, 0): tasks for size, tasks in missed.items() if tasks})
        return found


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The usable share by the fitted concentration, and what it is if tasks do not differ, where that fits as well."""

    value: float
    highest: float


def usable_share(table: Table, group_size: int) -> float:
    """The expected share of groups of this size with at least two different rewards."""
    value = _estimate(table, group_size).value
    if _counted(table, group_size):
        return value
    moved, gained = _second(table, group_size)
    return min(1.0, max(0.0, value + moved)) if gained > _BETTER else value


def _estimate(table: Table, group_size: int) -> _Estimate:
    shares = _shares(table)
    if len(shares) < 2:
        return _Estimate(0.0, 0.0)
    if _counted(table, group_size):
        value = _of_groups(table, group_size)
        return _Estimate(value, value)
    same = alike = 0.0
    for _, fitted, shown in _fits(table, shares):
        here = math.fsum(fitted.all_of(share, group_size) for share in shown)
        same += here
        alike += math.fsum(share**group_size for share in shown) if fitted.alike else here
    value = min(1.0, max(0.0, 1.0 - same))
    return _Estimate(value, max(value, 1.0 - alike))


def _shares(table: Table) -> dict[int, float]:
    tasks = sum(table.sizes.values())
    return {o: total / tasks for o, total in table.means.items() if total > 1e-9}


def _fits(table: Table, shares: Mapping[int, float]) -> list[tuple[int, Beta, list[float]]]:
    """Of each fit: (outcome, fit, mean shares of the outcomes it stands for); with two outcomes one tells of both.

    Of several outcomes only those that were all of some task: the others hardly ever fill a group.
    """
    cells = table.cells()
    if len(shares) == 2:
        outcome = min(shares)
        share = shares[outcome]
        return [(outcome, beta(cells[outcome], share), [share, 1.0 - share])]
    filled = [o for o in shares if any(size == count for size, count in cells[o])]
    return [(o, beta(cells[o], shares[o]), [shares[o]]) for o in filled]


def _counted(table: Table, group_size: int) -> bool:
    return min(size for size, tasks in table.sizes.items() if tasks) >= group_size


def _of_groups(table: Table, group_size: int) -> float:
    """The share of mixed ones among all groups that the rollouts of each task make: unbiased, without a model."""
    same = math.fsum(
        tasks * math.comb(count, group_size) / math.comb(size, group_size)
        for (_, size, count), tasks in table.pairs.items()
    )
    return 1.0 - same / sum(table.sizes.values())


def _share(shares: Mapping[int, float], concentration: float, group_size: int) -> float:
    same = math.fsum(all_of(concentration, share, group_size) for share in shares.values())
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
    if _counted(table, group_size):
        return score(found.value, len(tasks))
    if len(tasks) >= _JACKKNIFE_FROM:
        interval = _jackknife(tasks, table, found.value, group_size, seed)
    else:
        interval = _bootstrap(tasks, found.value, group_size, seed)
    return _beside(_at_least(interval, mixed, table, group_size), table, group_size)


def _beside(interval: Interval, table: Table, group_size: int) -> Interval:
    """The interval, taken as wide around the share by two kinds of tasks too where that model fits about as well.

    Where it fits far better, around that share alone.
    """
    moved, gained = _second(table, group_size)
    value, low, high = (min(1.0, max(0.0, v + moved)) for v in (interval.value, interval.low, interval.high))
    if gained > _BETTER:
        return Interval(value, low, high)
    return Interval(interval.value, min(low, interval.low), max(high, interval.high))


def _second(table: Table, group_size: int) -> tuple[float, float]:
    """How far two kinds of tasks move the share where they fit about as well, and by how much they fit better."""
    cells = table.cells()
    moved = gained = 0.0
    for outcome, fitted, shown in _fits(table, _shares(table)):
        two = kinds(cells[outcome])
        if two.likelihood - fitted.likelihood < _WORSE:
            continue
        of_beta = math.fsum(fitted.all_of(share, group_size) for share in shown)
        moved += of_beta - two.all_of(group_size) - (two.none_of(group_size) if len(shown) == 2 else 0.0)
        gained += two.likelihood - fitted.likelihood
    return moved, gained


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
        values.append(_estimate(table.without(left_out), group_size).value)
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
    low, high = LOG_LOW, LOG_HIGH
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _share(shares, math.exp(middle), size) < mixed else (low, middle)
    return max(mixed, _share(shares, math.exp(high), group_size))
