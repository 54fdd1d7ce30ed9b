"""How many tasks and rollouts a sample needs: to pass at all, to be worth asking for, and to decide an unclear rule."""

from __future__ import annotations

import math

from prime_lab_mcp.lab.distribution.summary import MIN_ROLLOUTS, MIN_TASKS, Distribution

ADVISED_TASKS, ADVISED_ROLLOUTS = 50, 8
MOST_ROLLOUTS = 128
"""The most rollouts a task that run_eval takes."""


def needed_size(available: int | None) -> tuple[int, int]:
    """Return the fewest tasks and rollouts a task that can pass, where the environment has `available` tasks."""
    if available is None or available >= MIN_TASKS:
        return MIN_TASKS, MIN_ROLLOUTS
    tasks = max(available, 1)
    return tasks, min(MOST_ROLLOUTS, math.ceil(MIN_TASKS * MIN_ROLLOUTS / tasks))


def advised_size(available: int | None) -> tuple[int, int]:
    """Return tasks and rollouts a task to ask for, never more tasks than the environment has."""
    if available is None or available >= ADVISED_TASKS:
        return ADVISED_TASKS, ADVISED_ROLLOUTS
    tasks = max(available, 1)
    return tasks, min(MOST_ROLLOUTS, math.ceil(ADVISED_TASKS * ADVISED_ROLLOUTS / tasks))


def larger_size(facts: Distribution, tasks: int) -> tuple[int, int] | None:
    """Return tasks and rollouts a task of a sample worth that many tasks at the present rollouts a task.

    An environment with fewer tasks makes up for them by rollouts. None where even the most rollouts are too few.
    """
    each = max(1.0, facts.scored / max(facts.tasks, 1))
    if facts.available is None or tasks <= facts.available:
        return tasks, math.ceil(each)
    rollouts = math.ceil(each * tasks / max(facts.available, 1))
    return (facts.available, rollouts) if rollouts <= MOST_ROLLOUTS else None


def larger_sample(facts: Distribution, tasks: int) -> str:
    """Return the call for a sample worth that many tasks at the present rollouts a task.

    Where the environment has fewer tasks, the call asks for all of them and for more rollouts a task instead.
    """
    if facts.available is None or tasks <= facts.available:
        return f"Run run_eval with num_examples={tasks}"
    every = f"all {facts.available} tasks" if facts.available > 1 else "its one task"
    size = larger_size(facts, tasks)
    if size is None:
        return (
            f"Add tasks: the environment has only {facts.available}, and {MOST_ROLLOUTS} rollouts of each are too few"
        )
    return (
        f"Run run_eval with num_examples={facts.available} and rollouts={size[1]}, which is {every} of the environment"
    )
