"""What share of groups would be usable at another group size than the evaluated one.

A beta-binomial with the measured mean, fitted to the measured share: the form that lab/distribution uses on single
rollouts, from the two numbers that the ledger keeps. An estimate: partial credit makes more groups usable.
"""

from __future__ import annotations

import math

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.distribution.extrapolate import LOG_HIGH, LOG_LOW, all_of

EVALUATED_GROUP = 16
"""Group size that a share stands for where its evidence names none: what an evaluation is judged for by default."""
_HALVINGS = 60


def usable_at(seen: Observed, group: int) -> float | None:
    """Expected usable share, of the hardest environment; None where nothing was measured."""
    share, at = seen.usable, seen.usable_group or EVALUATED_GROUP
    if share is None or seen.mean is None or at == group or not 0 < share < 1:
        return share
    mean = min(max(seen.mean, 1e-3), 1 - 1e-3)
    concentration = math.exp(_fitted(mean, at, share))
    here = _mixed(concentration, mean, at)
    return min(1.0, _mixed(concentration, mean, group) * share / here) if here > 0 else share


def _fitted(mean: float, group: int, share: float) -> float:
    """Logarithm of the concentration that gives this share, by bisection: the share grows with it."""
    low, high = LOG_LOW, LOG_HIGH
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _mixed(math.exp(middle), mean, group) < share else (low, middle)
    return (low + high) / 2


def _mixed(concentration: float, mean: float, group: int) -> float:
    return 1.0 - all_of(concentration, mean, group) - all_of(concentration, 1 - mean, group)
