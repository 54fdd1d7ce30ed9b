"""What the decision table looks at beside the public numbers: their intervals, and how large the sample is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.distribution.collect import Sample
from prime_lab_mcp.lab.distribution.intervals import Interval
from prime_lab_mcp.lab.distribution.tasks import Task

MIN_TASKS, MIN_ROLLOUTS = 30, 4


@dataclass(frozen=True, slots=True)
class Measured:
    mean: Interval
    signal: Interval | None
    """Share of usable groups; None where no task has two rollouts."""
    deviation: Interval
    form: Interval | None
    """Mean score of the form."""
    scored_tasks: int
    full_tasks: int
    """Tasks with at least `MIN_ROLLOUTS` scored rollouts."""
    completed: int
    nonfinite: int

    @classmethod
    def of(
        cls,
        sample: Sample,
        tasks: Sequence[Task],
        mean: Interval,
        signal: Interval | None,
        deviation: Interval,
        form: Interval | None,
    ) -> Measured:
        full = sum(len(t.rewards) >= MIN_ROLLOUTS for t in tasks)
        return cls(mean, signal, deviation, form, len(tasks), full, sample.completed, sample.nonfinite)
