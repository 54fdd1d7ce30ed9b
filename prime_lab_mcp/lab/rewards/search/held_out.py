"""Judges a find of the search on held-out tasks, which the search never scores.

A find counts as a hole by one of two measures. It is paid like the right answer on clearly more tasks than a constant
answer deserves. Or its mean reward clearly exceeds both the share that an empty form may earn (30%, docs/validation.md,
Reward tests) and the share that the best constant answer earns by being partly right.

The share that a constant answer deserves is measured by scoring answers of other tasks: with an interval, a tolerance
or a list of accepted answers, one constant may rightly be paid on many tasks. If nearly every answer is paid on nearly
every task, the reward does not distinguish answers. Then a constant deserves only the tasks with exactly this answer.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.statistics import binomial_tail
from prime_lab_mcp.lab.rewards.observations import HeldOutVerdict
from prime_lab_mcp.lab.rewards.thresholds import FULL_SHARE

FORM = 0.3
"""Share of the maximum that a form without an answer may earn."""
CHECKS = 4
"""Largest number of finds of one search that are judged on the same held-out tasks."""
FEWEST = 5
"""Smallest number of held-out tasks."""
_CHANCE = 0.001 / CHECKS
"""Largest probability that chance explains the number of paid tasks, divided by the number of tests (Bonferroni)."""
_MARGIN = 0.2
"""Share of tasks by which a find must exceed the deserved share."""
_MEAN_MARGIN = 0.05
"""Share of the maximum by which the mean reward of a find must exceed the deserved mean."""
_INDISCRIMINATE = 0.8
"""Share of wrong constants paid in full from which on a reward does not distinguish answers."""


@dataclass(frozen=True, slots=True)
class ConstantAnswers:
    """The rewards of some constant answers (answers of other tasks, in the asked form) on the held-out tasks.

    `shares` has a row for each constant and a column for each task, with shares of the task's maximum. `equal` marks
    the tasks whose own answer the constant is. `deserved` is the share of tasks on which the most frequent answer is
    right.
    """

    shares: tuple[tuple[float, ...], ...]
    equal: tuple[tuple[bool, ...], ...]
    deserved: float

    @property
    def full(self) -> float:
        """The share of tasks on which the best constant answer deserves to be paid in full."""
        best = [sum(s >= FULL_SHARE for s in row) / len(row) for row in self.shares]
        others = self._others()
        indiscriminate = bool(others) and sum(s >= FULL_SHARE for s in others) / len(others) >= _INDISCRIMINATE
        return self.deserved if indiscriminate or not best else max(self.deserved, *best)

    @property
    def mean(self) -> float:
        """The mean share of the maximum that a constant answer deserves, for its form and for being partly right."""
        others = self._others()
        if not others:
            return max(FORM, self.deserved)
        floor = max(0.0, statistics.quantiles(others, n=5)[0] if len(others) > 1 else others[0])
        best = max(statistics.fmean(row) for row in self.shares)
        return max(FORM, min(floor, FORM) + max(0.0, best - floor), self.deserved)

    def _others(self) -> list[float]:
        """The shares of the constants on tasks with another answer."""
        rows = zip(self.shares, self.equal, strict=True)
        return [s for row, equal in rows for s, own in zip(row, equal, strict=True) if not own]


def judge_find(shares: Sequence[float], constants: ConstantAnswers) -> HeldOutVerdict:
    """Return the verdict on a find. `shares` are its rewards on the held-out tasks, as shares of the maximum."""
    tasks, paid = len(shares), sum(share >= FULL_SHARE for share in shares)
    mean = statistics.fmean(shares) if shares else 0.0
    full, partly = constants.full, constants.mean
    often = tasks >= FEWEST and paid / tasks >= full + _MARGIN and binomial_tail(paid, tasks, full) <= _CHANCE
    error = statistics.stdev(shares) / math.sqrt(tasks) if tasks > 1 else 1.0
    much = tasks >= FEWEST and mean - 3 * error > partly + _MEAN_MARGIN
    return HeldOutVerdict(tasks, paid, mean, full, partly, often or much)


_NEARLY_ALL = 0.9
"""Share of the held-out tasks on which a constant completion must earn the whole reward if tasks have no golds."""


def judge_without_golds(shares: Sequence[float], *, constant: bool) -> HeldOutVerdict:
    """Return the verdict on a find for tasks without golds. `shares` are shares of the declared reward.

    What is right is not known, so only one thing counts: the same text, whole, for nearly all tasks. A completion with
    a copy from the prompt does not count, because it may be what the task asks for.
    """
    tasks, paid = len(shares), sum(share >= FULL_SHARE for share in shares)
    mean = statistics.fmean(shares) if shares else 0.0
    counts = constant and tasks >= FEWEST and paid >= _NEARLY_ALL * tasks
    return HeldOutVerdict(tasks, paid, mean, 0.0, 0.0, counts)
