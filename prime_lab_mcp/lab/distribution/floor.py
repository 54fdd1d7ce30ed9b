"""What a policy earns that does not look at the question: a model no better than it has shown nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from prime_lab_mcp.lab.evals.conversation import gold
from prime_lab_mcp.lab.evals.results import Rollout

Policy = Literal["always-the-most-frequent-answer", "right-form-wrong-answer", "given"]
_LABEL = 60
"""Characters up to which a gold is taken for a label."""
_REPEATED = 3
"""Golds are labels where tasks outnumber different golds by this factor."""
_FEWEST = 20
"""Tasks with a gold below which a share says nothing."""
_FROM = 20_000
"""Rollouts looked through for golds at most."""
_TASKS = 2000
"""Tasks whose golds are enough: a share of them is known to 2 points."""
_UNSTATED = 200
"""Tasks without any gold after which none is looked for."""


@dataclass(frozen=True, slots=True)
class Floor:
    """`reward` as a share of what is attainable."""

    policy: Policy
    reward: float

    @property
    def said(self) -> str:
        told: dict[Policy, str] = {
            "always-the-most-frequent-answer": "always giving the most frequent answer",
            "right-form-wrong-answer": "keeping to the form without being right",
            "given": "a trivial policy",
        }
        return told[self.policy]

    def as_json(self) -> dict[str, Any]:
        return {"policy": self.policy, "reward": round(self.reward, 4)}


def golds_of(rollouts: Iterable[Rollout]) -> dict[str, str]:
    """Task to gold, of as many of the first rollouts as it takes to tell whether golds are labels, and which."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for rollout in islice(rollouts, _FROM):
        if rollout.task in seen:
            continue
        seen.add(rollout.task)
        answer = gold(rollout)
        if answer is not None:
            found[rollout.task] = answer
        longer = answer is not None and len(answer.strip()) > _LABEL
        if longer or len(found) >= _TASKS or (not found and len(seen) >= _UNSTATED):
            break
    return found


def majority(golds: Mapping[str, str]) -> float | None:
    """The share of tasks that the most frequent gold answers; None where golds are no labels."""
    counts = Counter(answer.strip().casefold()[: _LABEL + 1] for answer in golds.values())
    if len(golds) < _FEWEST or len(counts) * _REPEATED > len(golds) or any(len(a) > _LABEL for a in counts):
        return None
    return counts.most_common(1)[0][1] / len(golds)


def floor_of(form_weight: float | None, best: float, golds: Mapping[str, str] | None) -> Floor | None:
    """The best of the trivial policies that these rollouts tell of. `form_weight`: what the form alone pays."""
    form = min(1.0, (form_weight or 0.0) / best)
    share = majority(golds) if golds else None
    if share is not None:
        return Floor("always-the-most-frequent-answer", share + (1 - share) * form)
    return Floor("right-form-wrong-answer", form) if form > 0 else None
