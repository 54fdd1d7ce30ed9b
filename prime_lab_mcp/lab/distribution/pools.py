"""prime-rl's difficulty pools by a task's mean reward, and when a curriculum pays: one place for all who speak of them.

Source: DifficultyPoolSamplerConfig of prime-rl 559b4477 (21 August 2026). Exact 0 and exact 1 stand apart where tasks
are counted: prime-rl draws them too, and they teach nothing.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from prime_lab_mcp.lab.distribution.attainable import EPSILON

Curriculum = Literal["gate", "pools", "both"]


class Pool(NamedTuple):
    """Holds tasks with a mean up to `threshold`; `weight` is how often it is drawn from."""

    threshold: float
    weight: float


POOLS = {"hard": Pool(0.25, 0.2), "normal": Pool(0.75, 1.0), "easy": Pool(1.0, 0.2)}
"""The defaults of prime-rl, easiest last."""
NAMES = ("never", "hard", "normal", "easy", "always")
GATE_BELOW = 0.6
"""Usable share of groups below which resampling the others pays (our judgement)."""


def pool_of(mean: float, highest: float) -> str:
    """The pool of a task by its mean reward and its highest, both as shares of what is attainable."""
    if highest <= EPSILON:
        return "never"
    if mean >= 1 - EPSILON:
        return "always"
    return next(name for name, pool in POOLS.items() if mean <= pool.threshold)


def curriculum(usable: float, solved: int, unsolved: int) -> Curriculum | None:
    """What a usable share and tasks at both ends (too easy, too hard) ask for."""
    gate, pools = usable < GATE_BELOW, bool(solved and unsolved)
    return "both" if gate and pools else "gate" if gate else "pools" if pools else None
