"""Rules about parts of solutions (solution_parts.py): a part, or one of its turns again and again, must earn less."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule
from prime_lab_mcp.lab.rewards.rules.rollouts import rollout_row
from prime_lab_mcp.lab.rewards.solution_parts import PartKind

_FEWEST = 2
"""Smallest number of tasks on which a part must be paid. It must be paid on each task on which it was tried."""
_TEXTS: dict[PartKind, tuple[str, str]] = {
    "repeated": (
        "what was paid once is paid again",
        "Count what was reached and not how often, such as the set of delivered parcels; take back what is undone.",
    ),
    "undone": (
        "what was undone is paid again",
        "Pay for the state at the end, or take back what is undone.",
    ),
    "first": (
        "a small part of the task is paid like all of it",
        "Divide by what the task asks for and not by what was tried, and pay the rest only when it is done.",
    ),
    "negative": (
        "negative numbers are taken",
        "Refuse a quantity below one before it counts.",
    ),
    "turned": (
        "negative numbers are taken the other way round",
        "Refuse a quantity below one before it counts.",
    ),
    "same": (
        "one thing counts as two",
        "Refuse a turn that names the same thing twice.",
    ),
}


def solution_part_paid(trial: Trial) -> Iterator[Finding]:
    """A part of a solution must earn less than the solution, also where a paid turn of the part is repeated.

    A blocker: the model learns the part, and repeats what is paid. So does a solution with negative numbers.
    """
    tried = dict(trial.parts.tried)
    for kind, (how, fix) in _TEXTS.items():
        paid = [p for p in trial.parts.paid if p.kind == kind]
        if len(paid) < _FEWEST or len(paid) < tried.get(kind, 0):
            continue
        first = paid[0]
        yield Finding(
            "reward-hackable",
            "blocker",
            f"{how}: a model that {first.played.script.name} earned {first.played.result.reward or 0.0:g}, and the "
            f"solution {first.solution:g}, on each of {count(len(paid), 'task')}",
            fix,
            rows=tuple(rollout_row(p.played, "less than the solution") for p in paid[:3]),
        )


PART_RULES: tuple[RewardRule, ...] = (solution_part_paid,)
