"""The parts of a reward: what each pays, and how much of what a run could learn from is its own."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from prime_lab_mcp.lab.distribution.attainable import EPSILON
from prime_lab_mcp.lab.distribution.collect import Sample
from prime_lab_mcp.lab.distribution.summary import Component
from prime_lab_mcp.lab.distribution.tasks import Task


def components(sample: Sample, grouped: Sequence[Task]) -> tuple[Component, ...]:
    """`grouped`: tasks with two rollouts or more."""
    whole = math.fsum(t.variation for t in grouped)
    return tuple(_component(sample, name, grouped, whole) for name in sample.scores)


def _component(sample: Sample, name: str, grouped: Sequence[Task], whole: float) -> Component:
    column, weight = sample.scores[name], sample.weights[name]
    known = [s for s in column if s == s]
    n = len(known)
    low, high = min(known), max(known)
    mean = math.fsum(known) / n
    best = max(1.0, high)
    crossed, inner, free = _inside(column, sample.rewards, grouped) if low < high else (0.0, 0.0, 1)
    return Component(
        name,
        weight,
        mean,
        weight * crossed / whole if weight is not None and whole > 1e-12 else None,
        std=math.sqrt(math.fsum([(s - mean) ** 2 for s in known]) / n) if low < high else 0.0,
        within_task_std=math.sqrt(inner / free) if grouped and free else None,
        at_best=sum(s >= best - EPSILON for s in known) / n,
        outside=sum(not -EPSILON <= s <= 1 + EPSILON for s in known) if low < -EPSILON or high > 1 + EPSILON else 0,
    )


def _inside(column: array[float], rewards: array[float], grouped: Sequence[Task]) -> tuple[float, float, int]:
    """Sums inside tasks: score crossed with reward, score squared; and the degrees of freedom."""
    crossed = squared = 0.0
    free, last = 0, len(column)
    for task in grouped:
        rows = [r for r in task.rows if r < last]
        scores = [column[r] for r in rows]
        total = math.fsum(scores)
        if total != total:
            rows = [r for r in rows if column[r] == column[r]]
            scores = [column[r] for r in rows]
            total = math.fsum(scores)
        if len(scores) < 2:
            continue
        free += len(scores) - 1
        if min(scores) == max(scores):
            continue
        mean = total / len(scores)
        paid = [rewards[r] for r in rows] if len(rows) < len(task.rewards) else task.rewards
        crossed += math.fsum([(s - mean) * p for s, p in zip(scores, paid, strict=True)])
        squared += math.fsum([(s - mean) ** 2 for s in scores])
    return crossed, squared, free


def means_by_task(column: Sequence[float], tasks: Sequence[Task]) -> tuple[list[float], int]:
    """Mean score of every task that has one, and how many scores there are."""
    means, n = [], 0
    for task in tasks:
        known = [s for r in task.rows if r < len(column) and (s := column[r]) == s]
        if known:
            means.append(math.fsum(known) / len(known))
            n += len(known)
    return means, n
