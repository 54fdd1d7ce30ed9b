"""Judges a find on tasks that the search never scored: is it paid more than a trivial policy deserves?

Two measures, because rewards grade. A completion is a hole where it is paid like the right answer on more tasks than a
constant deserves to be right on, or where its mean pay exceeds what an empty form may earn (30%, docs/validation.md,
Reward tests) and what the best constant answer earns by being partly right. What a constant answer deserves is measured
with the answers of other tasks: an interval, a tolerance or a list of accepted answers makes one constant right on many
tasks. Where nearly every answer is paid on nearly every task, the reward does not tell answers apart, and only equality
with the task's own answer is deserved.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.rewards.thresholds import FULL_SHARE

FORM = 0.3
"""Share of the maximum that form without an answer may earn."""
CHECKS = 4
"""Most finds of one search that are judged on the same held-out tasks."""
FEWEST = 5
"""Fewest held-out tasks."""
_CHANCE = 0.001 / CHECKS
_MARGIN = 0.2
_MEAN_MARGIN = 0.05
_INDISCRIMINATE = 0.8


@dataclass(frozen=True, slots=True)
class ConstantAnswers:
    """What some constant answers, the answers of other tasks in the asked form, earned on the held-out tasks.

    `shares` has a row for each constant and a column for each task; `equal` marks tasks whose own answer it is.
    `deserved` is the share of tasks on which the commonest answer is right.
    """

    shares: tuple[tuple[float, ...], ...]
    equal: tuple[tuple[bool, ...], ...]
    deserved: float

    @property
    def full(self) -> float:
        """The share of tasks on which the best constant answer deserves to be paid like the right one."""
        best = [sum(s >= FULL_SHARE for s in row) / len(row) for row in self.shares]
        others = self._others()
        indiscriminate = bool(others) and sum(s >= FULL_SHARE for s in others) / len(others) >= _INDISCRIMINATE
        return self.deserved if indiscriminate or not best else max(self.deserved, *best)

    @property
    def mean(self) -> float:
        """The mean pay that a constant answer deserves: form, and what it earns by being partly right."""
        others = self._others()
        if not others:
            return max(FORM, self.deserved)
        floor = max(0.0, statistics.quantiles(others, n=5)[0] if len(others) > 1 else others[0])
        best = max(statistics.fmean(row) for row in self.shares)
        return max(FORM, min(floor, FORM) + max(0.0, best - floor), self.deserved)

    def _others(self) -> list[float]:
        rows = zip(self.shares, self.equal, strict=True)
        return [s for row, equal in rows for s, own in zip(row, equal, strict=True) if not own]


@dataclass(frozen=True, slots=True)
class HeldOutVerdict:
    """How a find did on held-out tasks: `paid` of `tasks` like the right answer, and its mean pay; what of both a
    trivial policy deserves; and whether the find counts.
    """

    tasks: int
    paid: int
    mean: float
    deserved: float
    deserved_mean: float
    counts: bool


def judge_find(shares: Sequence[float], constants: ConstantAnswers) -> HeldOutVerdict:
    """The verdict on a find that earned these shares of the maximum on the held-out tasks."""
    tasks, paid = len(shares), sum(share >= FULL_SHARE for share in shares)
    mean = statistics.fmean(shares) if shares else 0.0
    full, partly = constants.full, constants.mean
    often = tasks >= FEWEST and paid / tasks >= full + _MARGIN and binomial_tail(paid, tasks, full) <= _CHANCE
    error = statistics.stdev(shares) / math.sqrt(tasks) if tasks > 1 else 1.0
    much = tasks >= FEWEST and mean - 3 * error > partly + _MEAN_MARGIN
    return HeldOutVerdict(tasks, paid, mean, full, partly, often or much)


def binomial_tail(hits: int, number: int, chance: float) -> float:
    """The probability of at least `hits` successes in `number` trials."""
    return math.fsum(math.comb(number, k) * chance**k * (1 - chance) ** (number - k) for k in range(hits, number + 1))
