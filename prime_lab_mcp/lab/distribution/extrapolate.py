"""How often all of G rollouts of a task have one outcome, from tasks of r rollouts: what one outcome's counts tell.

Two models of how a task's chance of the outcome varies over tasks. A Beta (counts are beta-binomial): its mean is the
pooled one, its concentration of maximum likelihood. And two kinds of tasks, each with one chance: tasks that are hit
rarely or nearly always, which a Beta cannot hold apart from tasks of even chance, and tasks that are never solved
beside others. Few rollouts cannot tell them apart, and they differ at a larger G: both are reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Cells = Mapping[tuple[int, int], int]
"""(rollouts of a task, how many of them had the outcome) to the number of such tasks."""

_STEPS = 48
_CHI2 = 2.706
"""95 % of half a chi-square with one degree of freedom: the likelihood ratio at the edge of a parameter's range."""
LOG_LOW, LOG_HIGH = math.log(1e-4), math.log(1e4)
_GOLDEN = (math.sqrt(5) - 1) / 2
_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class Beta:
    """Of one outcome, its mean share being known: the concentration of highest likelihood."""

    concentration: float
    alike: bool
    """Whether tasks that do not differ fit as well.

    Maximum likelihood finds tasks that differ where they do not: the concentration ends at the edge of its range half
    of the time and below it the other half.
    """
    likelihood: float

    def all_of(self, mean: float, group: int) -> float:
        return all_of(self.concentration, mean, group)


def all_of(concentration: float, mean: float, group: int) -> float:
    """The expectation of p^group where p is Beta of this concentration and mean."""
    return math.exp(rising(concentration * mean, group) - rising(concentration, group))


def beta(cells: Cells, mean: float) -> Beta:
    """By golden-section search over the logarithm of the concentration."""
    known = [(size, count, tasks) for (size, count), tasks in cells.items() if tasks]
    low, high = LOG_LOW, LOG_HIGH
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = _likelihood(known, mean, left), _likelihood(known, mean, right)
    for _ in range(_STEPS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _likelihood(known, mean, right)
        else:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _likelihood(known, mean, left)
        if high - low < 1e-3:
            break
    best = _likelihood(known, mean, (low + high) / 2)
    edge = _likelihood(known, mean, LOG_HIGH)
    return Beta(math.exp((low + high) / 2), 2 * (best - edge) < _CHI2, best)


def _likelihood(known: list[tuple[int, int, int]], mean: float, log_concentration: float) -> float:
    c = math.exp(log_concentration)
    hit, missed = c * mean, c * (1 - mean)
    return math.fsum(
        [n * (rising(hit, count) + rising(missed, size - count) - rising(c, size)) for size, count, n in known]
    )


def rising(a: float, n: int) -> float:
    """log of a (a + 1) ... (a + n - 1)."""
    return math.lgamma(a + n) - math.lgamma(a) if n else 0.0


@dataclass(frozen=True, slots=True)
class Kinds:
    """Two kinds of tasks: (their share, their chance of the outcome)."""

    kinds: tuple[tuple[float, float], tuple[float, float]]
    likelihood: float

    def all_of(self, group: int) -> float:
        return math.fsum(share * p**group for share, p in self.kinds)

    def none_of(self, group: int) -> float:
        return math.fsum(share * (1 - p) ** group for share, p in self.kinds)


def kinds(cells: Cells) -> Kinds:
    """Of maximum likelihood, by expectation and maximisation; its likelihood is comparable with that of `beta`."""
    known = [(size, count, tasks) for (size, count), tasks in cells.items() if tasks]
    total = sum(n for _, _, n in known)
    weight, p, q = 0.5, 0.1, 0.9
    likelihood = -math.inf
    for _ in range(_ROUNDS):
        first = hits_p = tries_p = hits_q = tries_q = found = 0.0
        for size, count, n in known:
            of_p = weight * p**count * (1 - p) ** (size - count)
            of_q = (1 - weight) * q**count * (1 - q) ** (size - count)
            both = max(of_p + of_q, 1e-300)
            found += n * math.log(both)
            part = n * of_p / both
            first += part
            hits_p, tries_p = hits_p + part * count, tries_p + part * size
            hits_q, tries_q = hits_q + (n - part) * count, tries_q + (n - part) * size
        weight = first / total
        p, q = hits_p / max(tries_p, 1e-9), hits_q / max(tries_q, 1e-9)
        if found - likelihood < 1e-6:
            break
        likelihood = found
    return Kinds(((weight, p), (1 - weight, q)), found)
