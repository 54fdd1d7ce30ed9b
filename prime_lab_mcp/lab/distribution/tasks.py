"""The rollouts of one task together: what group statistics are made of."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.distribution.collect import Sample, order
from prime_lab_mcp.lab.distribution.pools import NAMES, pool_of

PASS_THRESHOLD = 0.5
"""Reward / attainable from which on a rollout counts as solved."""
_KS = (1, 2, 4, 8, 16, 32)


@dataclass(slots=True)
class Task:
    """Scored rollouts of one task. Rewards and what is made of them are as the environment gave them."""

    rewards: array[float]
    rows: array[int]
    mean: float
    variation: float
    """Sum of squared deviations from the task's mean."""
    low: float
    high: float


def tasks_of(sample: Sample) -> list[Task]:
    found = []
    every = sample.rewards
    for rows in order(sample):
        rewards = array("d", [every[row] for row in rows])
        low, high = min(rewards), max(rewards)
        if low == high:
            mean, variation = low, 0.0
        else:
            mean = math.fsum(rewards) / len(rewards)
            variation = math.fsum([(r - mean) ** 2 for r in rewards])
        found.append(Task(rewards, rows, mean, variation, low, high))
    return found


def difficulty(tasks: Sequence[Task], best: float) -> dict[str, int]:
    """Tasks in each of prime-rl's pools, with exact 0 and exact 1 apart."""
    pools = dict.fromkeys(NAMES, 0)
    for task in tasks:
        pools[pool_of(task.mean / best, task.high / best)] += 1
    return pools


def pass_at_k(tasks: Sequence[Task], best: float) -> dict[int, float]:
    """The unbiased estimate of Chen et al. 2021, over tasks with at least k rollouts."""
    solved = [(len(t.rewards), sum(r >= PASS_THRESHOLD * best for r in t.rewards)) for t in tasks]
    found: dict[int, float] = {}
    for k in _KS:
        enough = [s for s in solved if s[0] >= k]
        if len(enough) * 2 > len(solved):
            missed = [math.comb(n - passed, k) / math.comb(n, k) for n, passed in enough]
            found[k] = 1 - math.fsum(missed) / len(missed)
    return found


def std(tasks: Sequence[Task], best: float) -> float | None:
    n = sum(len(t.rewards) for t in tasks)
    if n < 2:
        return None
    grand = math.fsum(t.mean * len(t.rewards) for t in tasks) / n
    whole = math.fsum(t.variation + len(t.rewards) * (t.mean - grand) ** 2 for t in tasks)
    return math.sqrt(whole / (n - 1)) / best


def signal_fraction(tasks: Sequence[Task]) -> float | None:
    """1 - ICC(1) of a one-way layout, kept in [0, 1]; None without variance or without repeats."""
    n, groups = sum(len(t.rewards) for t in tasks), len(tasks)
    if groups < 2 or n <= groups:
        return None
    grand = math.fsum(t.mean * len(t.rewards) for t in tasks) / n
    within = math.fsum(t.variation for t in tasks) / (n - groups)
    between = math.fsum(len(t.rewards) * (t.mean - grand) ** 2 for t in tasks) / (groups - 1)
    size = (n - sum(len(t.rewards) ** 2 for t in tasks) / n) / (groups - 1)
    of_tasks = max(0.0, (between - within) / size)
    return within / (within + of_tasks) if within + of_tasks > 1e-15 else None


def learnability(grouped: Sequence[Task], best: float) -> float | None:
    """Mean unbiased variance inside a task: p (1 - p) for a reward of 0 or 1."""
    if not grouped:
        return None
    return math.fsum(t.variation / (len(t.rewards) - 1) for t in grouped) / len(grouped) / best**2
