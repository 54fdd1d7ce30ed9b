"""What smaller settings would save and cost: the share of groups with a gradient at another group size.

Two numbers of an evaluation fix a Beta over tasks up to its mirror image, which has the same share: the learnability
E[p(1-p)] and the share of groups with a gradient at one size.
"""

from __future__ import annotations

import math

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.distribution.extrapolate import LOG_HIGH, all_of

_ROUNDS = 50


def usable_at(seen: Observed, group: int) -> float | None:
    """The share of groups of this size with two different rewards; None where the evaluation does not tell."""
    known, size, spread = seen.usable, seen.usable_group, seen.learnability
    if known is None or size is None or size < 2 or group < 2:
        return None
    if group == size:
        return known
    if spread is None or not 0 < spread < 0.25 or not 0 < known < 1:
        return None
    alike, apart = (1 - math.sqrt(1 - 4 * spread)) / 2, 0.5
    for _ in range(_ROUNDS):
        middle = (alike + apart) / 2
        if _usable(middle, spread, size) > known:
            alike = middle
        else:
            apart = middle
    return _usable((alike + apart) / 2, spread, group)


def _usable(mean: float, spread: float, group: int) -> float:
    """Tasks that differ less than the spread allows are all alike."""
    room = mean * (1 - mean) - spread
    concentration = min(spread / room, math.exp(LOG_HIGH)) if room > 0 else math.exp(LOG_HIGH)
    return 1 - all_of(concentration, mean, group) - all_of(concentration, 1 - mean, group)
