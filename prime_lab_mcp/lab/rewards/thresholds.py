"""The tolerance and the shares with which rewards are compared."""

from __future__ import annotations

EPSILON = 1e-6
"""Rewards that differ by less are equal."""
FULL_SHARE = 0.99
"""Share of the maximum from which a completion counts as paid in full."""
HALF_SHARE = 0.5


def same_reward(left: float | None, right: float | None) -> bool:
    """Whether two rewards are equal up to `EPSILON`, or both missing."""
    if left is None or right is None:
        return left is right
    return abs(left - right) < EPSILON
