"""Which field of the tasks tells easy from hard: share of the variance between tasks that lies between its groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.evals.views.beta import f_tail

SIGNIFICANT = 0.05
_FEWEST = 2
"""Tasks of a group that says anything about its spread."""


@dataclass(frozen=True, slots=True)
class Separation:
    """`share` is eta squared, of task means; `p` that of an F test, not yet corrected for the number of fields."""

    share: float
    p: float


def separation(means: Sequence[float], codes: Sequence[int]) -> Separation | None:
    """Of task means by the group of each task; None where groups are too few, too small or without any spread."""
    groups: dict[int, list[float]] = {}
    for mean, code in zip(means, codes, strict=True):
        groups.setdefault(code, []).append(mean)
    sizeable = [g for g in groups.values() if len(g) >= _FEWEST]
    n = sum(map(len, sizeable))
    between, within = len(sizeable) - 1, n - len(sizeable)
    if between < 1 or within < 1:
        return None
    grand = math.fsum(x for g in sizeable for x in g) / n
    centres = [math.fsum(g) / len(g) for g in sizeable]
    explained = math.fsum(len(g) * (c - grand) ** 2 for g, c in zip(sizeable, centres, strict=True))
    left = math.fsum((x - c) ** 2 for g, c in zip(sizeable, centres, strict=True) for x in g)
    if explained + left < 1e-12:
        return None
    if left < 1e-12:
        return Separation(1.0, _by_chance([len(g) for g in sizeable]))
    f = (explained / between) / (left / within)
    return Separation(explained / (explained + left), f_tail(f, between, within))


def _by_chance(sizes: Sequence[int]) -> float:
    """The share of ways to deal the tasks into groups of these sizes that would leave no spread either: one in all."""
    return math.exp(math.fsum(math.lgamma(s + 1) for s in sizes) - math.lgamma(sum(sizes) + 1))


def corrected(p: float, fields: int) -> float:
    """Bonferroni: for the number of fields looked at."""
    return min(1.0, p * max(fields, 1))
