"""Computes the number of tasks and of rollouts for each task that a sample needs.

There are three sizes: the smallest one that can pass, the advised one, and the one that would decide an unclear rule.
"""

from __future__ import annotations

import math

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.distribution.summary import MIN_ROLLOUTS, MIN_TASKS, Distribution

ADVISED_TASKS, ADVISED_ROLLOUTS = 50, 8
MOST_ROLLOUTS = 128
"""The largest number of rollouts for each task that run_eval accepts."""


def needed_size(available: int | None) -> tuple[int, int]:
    """Return the smallest numbers of tasks and of rollouts for each task that can pass.

    `available` is the number of tasks of the environment, or None if it is unknown. If there are fewer than `MIN_TASKS`
    tasks, each task needs more rollouts.
    """
    if available is None or available >= MIN_TASKS:
        return MIN_TASKS, MIN_ROLLOUTS
    tasks = max(available, 1)
    return tasks, min(MOST_ROLLOUTS, math.ceil(MIN_TASKS * MIN_ROLLOUTS / tasks))


def is_too_small(tasks: int, rollouts: int, available: int | None) -> bool:
    """Whether an evaluation of so many tasks, and rollouts in all, is too small to decide anything."""
    least, each = needed_size(available)
    return tasks < least or rollouts < least * each


def advised_size(available: int | None) -> tuple[int, int]:
    """Return the advised numbers of tasks and of rollouts for each task, never more tasks than `available`."""
    if available is None or available >= ADVISED_TASKS:
        return ADVISED_TASKS, ADVISED_ROLLOUTS
    tasks = max(available, 1)
    return tasks, min(MOST_ROLLOUTS, math.ceil(ADVISED_TASKS * ADVISED_ROLLOUTS / tasks))


def larger_size(facts: Distribution, tasks: int) -> tuple[int, int] | None:
    """Return the numbers of tasks and of rollouts for each task that are worth `tasks` tasks of the present sample.

    If the environment has fewer tasks, each task gets more rollouts. None if that would exceed `MOST_ROLLOUTS`.
    """
    each = max(1.0, facts.scored / max(facts.tasks, 1))
    if facts.available is None or tasks <= facts.available:
        return tasks, math.ceil(each)
    rollouts = math.ceil(each * tasks / max(facts.available, 1))
    return (facts.available, rollouts) if rollouts <= MOST_ROLLOUTS else None


def larger_sample(facts: Distribution, tasks: int) -> str:
    """Return the advice, as text, to run an evaluation of the size that `larger_size` computes."""
    if facts.available is None or tasks <= facts.available:
        return Fix("Run ", NamedCall("run_eval").changed(num_examples=tasks))
    every = f"all {facts.available} tasks" if facts.available > 1 else "its one task"
    size = larger_size(facts, tasks)
    if size is None:
        return (
            f"Add tasks: the environment has only {facts.available}, and {MOST_ROLLOUTS} rollouts of each are too few"
        )
    return Fix(
        "Run ",
        NamedCall("run_eval").changed(num_examples=facts.available, rollouts=size[1]),
        f", which is {every} of the environment",
    )
