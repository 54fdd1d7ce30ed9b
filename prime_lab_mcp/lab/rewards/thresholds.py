"""Defines the tolerance and the shares of the maximum with which all rules compare rewards."""

from __future__ import annotations

EPSILON = 1e-6
"""Rewards that differ by less are equal."""
FULL_SHARE = 0.99
"""Share of the maximum with which a completion counts as paid in full."""
HALF_SHARE = 0.5
"""Share of the maximum that a wrong completion must not exceed."""


def same_reward(left: float | None, right: float | None) -> bool:
    """Whether two rewards differ by less than `EPSILON`, or are both missing."""
    if left is None or right is None:
        return left is right
    return abs(left - right) < EPSILON
