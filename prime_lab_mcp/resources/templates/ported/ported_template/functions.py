"""A placeholder for the functions of the older environment."""

from __future__ import annotations


def component() -> float:
    """A placeholder for a reward function."""
    return 0.0


class Game:
    """A placeholder for a game."""
