"""Computes the correlation of reward with completion length, and summarises completion lengths."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from prime_lab_mcp.lab.distribution.sample import TaskRewards

_TASKS = 4_000
"""Largest number of tasks that are ranked, evenly spread over all tasks: they give a correlation accurate to about
0.01."""
_CERTAIN = 2.576
"""The z value of a two-sided test with p < .01."""


@dataclass(frozen=True, slots=True)
class LengthCorrelation:
    """Spearman's rank correlation of reward and completion length inside tasks.

    `certain` means p < .01 by Fisher's transformation, with one degree of freedom less for each task.
    """

    rho: float
    certain: bool


def length_correlation(
    tasks: Sequence[TaskRewards], lengths: array[float], called: Sequence[int] = ()
) -> LengthCorrelation | None:
    """Correlate rewards with the mean completion tokens of a reply, ranked inside each task.

    None if the rewards or the lengths do not differ inside any task. `called` has the values of `RolloutSample.called`.
    If any rollout called a tool, rollouts that called none are left out: a model that skips the tools writes little and
    is not rewarded, which does not mean that the reward favours length.
    """
    leaves_out = 1 in called
    crossed = long = paid = 0.0
    rollouts = used = 0
    for task in tasks[:: max(1, math.ceil(len(tasks) / _TASKS))]:
        if task.low == task.high:
            continue
        ranked = [n for n, row in enumerate(task.rows) if not (leaves_out and called[row] == 0)]
        tokens, rewards = [lengths[task.rows[n]] for n in ranked], [task.rewards[n] for n in ranked]
        if len(set(rewards)) < 2:
            continue
        middle = (len(tokens) + 1) / 2
        ranks = [(a - middle, b - middle) for a, b in zip(_ranks(tokens), _ranks(rewards), strict=True)]
        crossed += math.fsum([a * b for a, b in ranks])
        long += math.fsum([a * a for a, _ in ranks])
        paid += math.fsum([b * b for _, b in ranks])
        rollouts += len(ranks)
        used += 1
    if long < 1e-12 or paid < 1e-12:
        return None
    rho = crossed / math.sqrt(long * paid)
    free = rollouts - used - 2
    inside = max(-0.999999, min(0.999999, rho))
    return LengthCorrelation(rho, free > 7 and abs(math.atanh(inside)) * math.sqrt(free) > _CERTAIN)


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the ranks of the values, from 1. Equal values get the mean of their ranks."""
    places = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(places):
        end = start
        while end + 1 < len(places) and values[places[end + 1]] == values[places[start]]:
            end += 1
        for place in places[start : end + 1]:
            ranks[place] = (start + end) / 2 + 1
        start = end + 1
    return ranks


def mean_lengths_by_outcome(solved: Sequence[int], lengths: Sequence[float]) -> dict[str, int]:
    """Return the mean completion tokens of a reply, for solved and for unsolved rollouts.

    Rollouts whose endpoint reported no tokens are left out, and so is an outcome without any other rollout.
    """
    totals, counts = [0.0, 0.0], [0, 0]
    for success, length in zip(solved, lengths, strict=True):
        if length > 0:
            missed = not success
            totals[missed] += length
            counts[missed] += 1
    return {n: round(totals[i] / counts[i]) for i, n in enumerate(("solved", "unsolved")) if counts[i]}


def length_percentiles(counts: Sequence[float]) -> dict[str, int]:
    """Return p50, p95, p99 and max of token counts; empty if the endpoint reported no tokens."""
    times = Counter(counts)  # a million counts have few different values, which are sorted sooner
    ordered = sorted(c for c in times if c > 0)
    if not ordered:
        return {}
    ends = list(accumulate(times[c] for c in ordered))
    last = ends[-1] - 1
    ranks = {f"p{p}": math.ceil(p / 100 * last) for p in (50, 95, 99)}
    return {name: int(ordered[bisect_right(ends, rank)]) for name, rank in ranks.items()} | {"max": int(ordered[-1])}
