"""The highest reward there is: what the weights promise, unless a rollout got more."""

from __future__ import annotations

EPSILON = 1e-6


def attainable(stated: float, highest: float) -> float:
    """From the sum of positive weights (0 where none is known) and the highest reward seen.

    A reward above what the weights promise shows that scores exceed 1; without weights it is at least 1.
    """
    if stated >= highest - EPSILON and stated > 0:
        return stated
    return max(highest, 1.0) if stated == 0 else highest
