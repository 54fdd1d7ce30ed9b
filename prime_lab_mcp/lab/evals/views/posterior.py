"""What a task's few rollouts say about how often the model solves it: a beta-binomial over all tasks as the prior.

0 of 4 does not make a task dead. With the prior Beta(a, b) fitted to all tasks (pooled mean, concentration by maximum
likelihood, facts/validation 3.2), a task with k of n has Beta(a + k, b + n - k), and everything else follows from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from prime_lab_mcp.lab.evals.views.beta import incomplete_beta, log_beta

Counts = Mapping[tuple[int, int], int]
"""(solved, rollouts) to how many tasks have them."""
_GRID = [-4.0 + 0.1 * i for i in range(101)]
"""Logarithms of the concentrations tried: from all-or-nothing tasks to tasks that are all alike."""


@dataclass(frozen=True, slots=True)
class Prior:
    a: float
    b: float
    fitted: bool
    """False where all rollouts ended alike: then any rate was as likely as any other before (uniform)."""

    def chance_below(self, rate: float, solved: int, rollouts: int) -> float:
        """P(p < rate) for a task with `solved` of `rollouts`."""
        return incomplete_beta(self.a + solved, self.b + rollouts - solved, rate)

    def expected(self, solved: int, rollouts: int) -> float:
        """The rate to expect of such a task the next time."""
        return (self.a + solved) / (self.a + self.b + rollouts)

    def alive(self, group: int, solved: int, rollouts: int) -> float:
        """The chance that `group` new rollouts of such a task are not all solved nor all missed."""
        a, b = self.a + solved, self.b + rollouts - solved
        whole = log_beta(a, b)
        return max(0.0, 1 - math.exp(log_beta(a + group, b) - whole) - math.exp(log_beta(a, b + group) - whole))


def fit(counts: Counts) -> Prior:
    """The prior of these tasks."""
    tasks = sum(counts.values())
    mean = math.fsum(times * k / n for (k, n), times in counts.items()) / tasks if tasks else 0.0
    if not 0 < mean < 1:
        return Prior(1.0, 1.0, fitted=False)
    best = max(_GRID, key=lambda log_c: _likelihood(counts, math.exp(log_c), mean))
    return Prior(mean * math.exp(best), (1 - mean) * math.exp(best), fitted=True)


def counted(solved: list[tuple[int, int]]) -> Counts:
    return Counter(solved)


def _likelihood(counts: Counts, concentration: float, mean: float) -> float:
    a, b = mean * concentration, (1 - mean) * concentration
    whole = log_beta(a, b)
    return math.fsum(times * (log_beta(a + k, b + n - k) - whole) for (k, n), times in counts.items())
