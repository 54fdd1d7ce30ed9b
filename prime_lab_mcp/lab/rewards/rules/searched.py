"""The rule about holes that the search found (rewards/search/)."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.rules.amounts import case_row, paid_text


def search_holes(trial: Trial) -> Iterator[Finding]:
    """A completion that is made without knowing the answer must not earn more than a trivial policy deserves.

    A blocker: the search proved it on tasks that it never scored (search/held_out.py).
    """
    for hole in trial.searched.holes:
        verdict, shot = hole.verdict, hole.shots[0]
        yield Finding(
            "reward-search-hole",
            "blocker",
            f"a completion made without knowing the answer was paid like the right one on {verdict.paid} of "
            f"{verdict.tasks} tasks that the search had never scored (chance: {verdict.deserved:.0%}), "
            f"{verdict.mean:.0%} of the maximum on average (deserved: {verdict.deserved_mean:.0%}): "
            f"{paid_text(shot, trial)}",
            "Pay only what the task's own answer decides: parse one final answer, compare it whole, and return 0 for "
            "anything else.",
            rows=tuple(
                case_row(
                    found,
                    "less than the right answer",
                    trial,
                    made_of=hole.recipe[:300],
                    how=", ".join(hole.steps),
                    seed=trial.searched.seed,
                )
                for found in hole.shots
            ),
        )
