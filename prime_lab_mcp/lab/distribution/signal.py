"""Estimates the share of training groups with a gradient, from evaluations with fewer rollouts for each task.

A group is usable if it has two different rewards: GRPO subtracts the group's mean, so a group of equal rewards has no
gradient. If every task has at least G rollouts, where G is the size of a training group, the function counts the groups
of G rollouts among them. With fewer rollouts a model extrapolates. An outcome is a distinct reward or a bin of rewards.
The model treats each outcome separately: one outcome (such as no reward) may depend on the task alone while others
(such as partial credit) vary inside tasks.

Two models describe how the probability of an outcome varies over tasks. In the first model the probability has a Beta
distribution, so that the counts are beta-binomial. Its mean is the pooled mean, and its concentration is fitted by
maximum likelihood. In the second model there are two kinds of tasks, each with one probability. The second model fits
tasks that are solved rarely or nearly always, and tasks that are never solved beside others, which a Beta distribution
describes badly. Few rollouts cannot decide between the models, and their predictions differ for a larger G. The
interval therefore covers both models where both fit. The interval describes the uncertainty from the choice of tasks.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.base.statistics import (
    LOG_HIGH,
    LOG_LOW,
    Cells,
    Interval,
    beta_binomial_likelihood,
    bootstrap_interval,
    fit_concentration,
    log_rising,
    score_interval,
    wilson_interval,
)

_CHI2 = 2.706
"""Critical value at 5 % of a likelihood-ratio test for a parameter at the edge of its range: half of the statistic's
distribution is a chi-square distribution with one degree of freedom."""
_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class BetaFit:
    """The Beta distribution with a given mean that fits the counts of one outcome best."""

    concentration: float
    alike: bool
    """True if a model in which all tasks have the same probability fits as well.

    For equal tasks, maximum likelihood puts the concentration at the edge of its range in half of the samples, and
    wrongly below the edge in the other half.
    """
    likelihood: float

    def all_of(self, mean: float, group: int) -> float:
        """Return the probability that all rollouts of a group have the outcome."""
        return expected_power(self.concentration, mean, group)


def expected_power(concentration: float, mean: float, group: int) -> float:
    """Return the expectation of p^group, where p has a Beta distribution of this concentration and mean."""
    return math.exp(log_rising(concentration * mean, group) - log_rising(concentration, group))


def fit_beta(cells: Cells, mean: float) -> BetaFit:
    """Fit the concentration of a beta-binomial distribution with this mean by maximum likelihood."""
    concentration, best = fit_concentration(cells, mean)
    edge = beta_binomial_likelihood(cells, mean, math.exp(LOG_HIGH))
    return BetaFit(concentration, 2 * (best - edge) < _CHI2, best)


@dataclass(frozen=True, slots=True)
class TwoKindsFit:
    """The fitted model of two kinds of tasks: (share of the tasks, probability of the outcome) for each kind."""

    kinds: tuple[tuple[float, float], tuple[float, float]]
    likelihood: float

    def all_of(self, group: int) -> float:
        """Return the probability that all rollouts of a group have the outcome."""
        return math.fsum(share * p**group for share, p in self.kinds)

    def none_of(self, group: int) -> float:
        """Return the probability that no rollout of a group has the outcome."""
        return math.fsum(share * (1 - p) ** group for share, p in self.kinds)


def fit_two_kinds(cells: Cells) -> TwoKindsFit:
    """Fit the model of two kinds of tasks by expectation maximisation.

    Its log-likelihood can be compared with that of `fit_beta`.
    """
    counted = [(size, count, tasks) for (size, count), tasks in cells.items() if tasks]
    total = sum(n for _, _, n in counted)
    weight, p, q = 0.5, 0.1, 0.9
    likelihood = -math.inf
    for _ in range(_ROUNDS):
        first = hits_p = tries_p = hits_q = tries_q = log_likelihood = 0.0
        for size, count, n in counted:
            of_p = weight * p**count * (1 - p) ** (size - count)
            of_q = (1 - weight) * q**count * (1 - q) ** (size - count)
            both = max(of_p + of_q, 1e-300)
            log_likelihood += n * math.log(both)
            part = n * of_p / both
            first += part
            hits_p, tries_p = hits_p + part * count, tries_p + part * size
            hits_q, tries_q = hits_q + (n - part) * count, tries_q + (n - part) * size
        weight = first / total
        p, q = hits_p / max(tries_p, 1e-9), hits_q / max(tries_q, 1e-9)
        if log_likelihood - likelihood < 1e-6:
            break
        likelihood = log_likelihood
    return TwoKindsFit(((weight, p), (1 - weight, q)), log_likelihood)


Outcomes = Sequence[tuple[int, int]]
"""The outcomes of one task: (outcome, number of rollouts with it), for outcomes that occurred."""

_RESAMPLES = 400
_JACKKNIFE_FROM = 600
"""Smallest number of tasks for which a block jackknife replaces the bootstrap. The jackknife is as accurate with so
many tasks, and its time grows only linearly with their number."""
_BLOCKS = 40
_STEPS = 48
_WORSE, _BETTER = -1.92, 3.84
"""Thresholds for the log-likelihood of the model of two kinds minus that of the Beta distribution.

Below `_WORSE` the model of two kinds is ignored. Above `_BETTER` it replaces the Beta distribution. In a
likelihood-ratio test (twice the difference) they are 3.84, the 5 % value of chi-square with one degree of freedom, and
twice as much, because the model of two kinds has one parameter more.
"""


@dataclass(slots=True)
class OutcomeTable:
    """The counts that the likelihood needs. They are sums over tasks, so the time of a fit does not depend on the
    number of tasks."""

    pairs: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """Number of tasks for each (outcome, rollouts of the task, rollouts with the outcome), without counts of 0."""
    sizes: Counter[int] = field(default_factory=Counter)
    """Number of tasks for each number of rollouts."""
    means: dict[int, float] = field(default_factory=dict)
    """For each outcome, the sum over tasks of the share of rollouts with the outcome."""

    def add(self, task: Outcomes, times: int = 1) -> None:
        """Count a task `times` times."""
        size = sum(count for _, count in task)
        self.sizes[size] += times
        for outcome, count in task:
            self.pairs[outcome, size, count] += times
            self.means[outcome] = self.means.get(outcome, 0.0) + times * count / size

    def add_all(self, tasks: Iterable[Outcomes]) -> None:
        """Count every task. Tasks with equal outcomes, of which large evaluations have many, are counted together."""
        for task, times in Counter(map(tuple, tasks)).items():
            self.add(task, times)

    def without(self, other: OutcomeTable) -> OutcomeTable:
        """Return the counts of this table minus those of another."""
        left = OutcomeTable(Counter(self.pairs), Counter(self.sizes))
        left.pairs.subtract(other.pairs)
        left.sizes.subtract(other.sizes)
        left.means = {outcome: total - other.means.get(outcome, 0.0) for outcome, total in self.means.items()}
        return left

    def cells(self) -> dict[int, dict[tuple[int, int], int]]:
        """Return, for each outcome, the number of tasks for each (rollouts, rollouts with the outcome), with counts of
        0."""
        cells: dict[int, dict[tuple[int, int], int]] = {}
        for (outcome, size, count), tasks in self.pairs.items():
            if tasks:
                cells.setdefault(outcome, {})[size, count] = tasks
        for of in cells.values():
            missed = Counter(self.sizes)
            for (size, _), tasks in of.items():
                missed[size] -= tasks
            of.update({(size, 0): tasks for size, tasks in missed.items() if tasks})
        return cells


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The estimated usable share, and the highest plausible one.

    `highest` is the share for tasks of equal probability if such a model fits as well, else `value`.
    """

    value: float
    highest: float


def usable_share(table: OutcomeTable, group_size: int) -> float:
    """Return the expected share of groups of `group_size` rollouts with at least two different rewards."""
    value = _estimate(table, group_size).value
    if _counted(table, group_size):
        return value
    moved, gained = _second_model(table, group_size)
    return min(1.0, max(0.0, value + moved)) if gained > _BETTER else value


def _estimate(table: OutcomeTable, group_size: int) -> _Estimate:
    """Estimate the usable share: by counting if every task has enough rollouts, else by the Beta model."""
    shares = _shares(table)
    if len(shares) < 2:
        return _Estimate(0.0, 0.0)
    if _counted(table, group_size):
        value = _of_groups(table, group_size)
        return _Estimate(value, value)
    same = alike = 0.0
    for _, fitted, outcome_shares in _fits(table, shares):
        here = math.fsum(fitted.all_of(share, group_size) for share in outcome_shares)
        same += here
        alike += math.fsum(share**group_size for share in outcome_shares) if fitted.alike else here
    value = min(1.0, max(0.0, 1.0 - same))
    return _Estimate(value, max(value, 1.0 - alike))


def _shares(table: OutcomeTable) -> dict[int, float]:
    """Return the mean share of each outcome over tasks, without outcomes that never occur."""
    tasks = sum(table.sizes.values())
    return {o: total / tasks for o, total in table.means.items() if total > 1e-9}


def _fits(table: OutcomeTable, shares: Mapping[int, float]) -> list[tuple[int, BetaFit, list[float]]]:
    """Return the fits as (outcome, fit, mean shares of the outcomes that the fit describes).

    If there are two outcomes, one fit describes both. If there are more, only outcomes that all rollouts of some task
    have are fitted: groups in which all rollouts have one of the other outcomes are very rare.
    """
    cells = table.cells()
    if len(shares) == 2:
        outcome = min(shares)
        share = shares[outcome]
        return [(outcome, fit_beta(cells[outcome], share), [share, 1.0 - share])]
    filled = [o for o in shares if any(size == count for size, count in cells[o])]
    return [(o, fit_beta(cells[o], shares[o]), [shares[o]]) for o in filled]


def _counted(table: OutcomeTable, group_size: int) -> bool:
    """Whether every task has at least `group_size` rollouts, so that groups can be counted without a model."""
    return min(size for size, tasks in table.sizes.items() if tasks) >= group_size


def _of_groups(table: OutcomeTable, group_size: int) -> float:
    """Return the share of usable groups among all groups that can be drawn from each task's rollouts.

    The estimate is unbiased. Every task needs at least `group_size` rollouts.
    """
    same = math.fsum(
        tasks * math.comb(count, group_size) / math.comb(size, group_size)
        for (_, size, count), tasks in table.pairs.items()
    )
    return 1.0 - same / sum(table.sizes.values())


def _share(shares: Mapping[int, float], concentration: float, group_size: int) -> float:
    """Return the usable share if the probability of each outcome has a Beta distribution of this concentration.

    `shares` has the mean of each distribution.
    """
    same = math.fsum(expected_power(concentration, share, group_size) for share in shares.values())
    return min(1.0, max(0.0, 1.0 - same))


def usable_interval(tasks: Sequence[Outcomes], group_size: int, seed: int) -> Interval:
    """Return the usable share with its interval. Each task needs at least two rollouts; `seed` fixes the resampling."""
    table = OutcomeTable()
    table.add_all(tasks)
    mixed = sum(len(task) > 1 for task in tasks)
    if mixed == 0:
        return Interval(0.0, 0.0, _bound_without_mixed(table, group_size))
    estimate = _estimate(table, group_size)
    if _counted(table, group_size):
        return score_interval(estimate.value, len(tasks))
    if len(tasks) >= _JACKKNIFE_FROM:
        interval = _jackknife(tasks, table, estimate.value, group_size, seed)
    else:
        interval = _bootstrap(tasks, estimate.value, group_size, seed)
    return _with_second_model(_at_least(interval, mixed, table, group_size), table, group_size)


def _with_second_model(interval: Interval, table: OutcomeTable, group_size: int) -> Interval:
    """Widen the interval so that it covers the model of two kinds of tasks, if that model fits about as well.

    If the model of two kinds fits much better, the interval is moved to its estimate.
    """
    moved, gained = _second_model(table, group_size)
    value, low, high = (min(1.0, max(0.0, v + moved)) for v in (interval.value, interval.low, interval.high))
    if gained > _BETTER:
        return Interval(value, low, high)
    return Interval(interval.value, min(low, interval.low), max(high, interval.high))


def _second_model(table: OutcomeTable, group_size: int) -> tuple[float, float]:
    """Compare the model of two kinds of tasks with the Beta model.

    Returns the difference of their usable shares and the difference of their log-likelihoods, both summed over the
    outcomes for which the model of two kinds does not fit worse.
    """
    cells = table.cells()
    moved = gained = 0.0
    for outcome, fitted, outcome_shares in _fits(table, _shares(table)):
        two = fit_two_kinds(cells[outcome])
        if two.likelihood - fitted.likelihood < _WORSE:
            continue
        of_beta = math.fsum(fitted.all_of(share, group_size) for share in outcome_shares)
        moved += of_beta - two.all_of(group_size) - (two.none_of(group_size) if len(outcome_shares) == 2 else 0.0)
        gained += two.likelihood - fitted.likelihood
    return moved, gained


def _bootstrap(tasks: Sequence[Outcomes], value: float, group_size: int, seed: int) -> Interval:
    """Return the interval from resampling the tasks; its upper bound is that of the highest plausible share."""
    rng = random.Random(seed)
    values, highest = [], []
    for _ in range(_RESAMPLES):
        drawn = OutcomeTable()
        for index, times in Counter(rng.choices(range(len(tasks)), k=len(tasks))).items():
            drawn.add(tasks[index], times)
        estimate = _estimate(drawn, group_size)
        values.append(estimate.value)
        highest.append(estimate.highest)
    return Interval(value, bootstrap_interval(values, value).low, bootstrap_interval(highest, value).high)


def _at_least(interval: Interval, mixed: int, table: OutcomeTable, group_size: int) -> Interval:
    """Widen the interval to what so few tasks can show.

    A mixed task has rollouts with different rewards; `mixed` is their number. Resampling underestimates the uncertainty
    if few tasks are mixed, or all but few, down to an interval without width. Of a share below 0.5 the interval is at
    least that of the share of mixed tasks, which is Wilson's interval scaled by the ratio of the two estimates. Above
    it is at least Wilson's interval for one group of every task.
    """
    tasks = sum(table.sizes.values())
    if interval.value >= 0.5:
        group = score_interval(interval.value, tasks)
        return Interval(interval.value, min(interval.low, group.low), max(interval.high, group.high))
    mixed_share = wilson_interval(mixed, tasks)
    ratio = interval.value / mixed_share.value
    low, high = min(interval.low, mixed_share.low * ratio), max(interval.high, mixed_share.high * ratio)
    return Interval(interval.value, low, min(1.0, high))


def _jackknife(tasks: Sequence[Outcomes], table: OutcomeTable, value: float, group_size: int, seed: int) -> Interval:
    """Return the interval from leaving out each of `_BLOCKS` random blocks of tasks."""
    order = list(range(len(tasks)))
    random.Random(seed).shuffle(order)
    values = []
    for block in range(_BLOCKS):
        left_out = OutcomeTable()
        left_out.add_all([tasks[index] for index in order[block::_BLOCKS]])
        values.append(_estimate(table.without(left_out), group_size).value)
    middle = math.fsum(values) / _BLOCKS
    half = 1.96 * math.sqrt((_BLOCKS - 1) / _BLOCKS * math.fsum((v - middle) ** 2 for v in values))
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def _bound_without_mixed(table: OutcomeTable, group_size: int) -> float:
    """Return a one-sided 95 % upper bound of the usable share if no task has two different rewards.

    If all N rollouts have one outcome, another outcome has a probability below 3 / N (rule of three). If the tasks
    differ from each other, fewer than about 3 / n of n tasks are mixed, and the beta-binomial distribution extrapolates
    this share to groups of `group_size`.
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
