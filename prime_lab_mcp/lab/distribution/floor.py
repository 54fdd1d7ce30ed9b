"""The reward of a trivial policy that ignores the question; a model with no more than that has learned nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from prime_lab_mcp.lab.rollouts.conversation import gold
from prime_lab_mcp.lab.rollouts.rollout import Rollout

Policy = Literal["always-the-most-frequent-answer", "right-form-wrong-answer", "given"]
_LABEL = 60
"""Characters up to which a gold counts as a label."""
_REPEATED = 3
"""Golds are labels where tasks outnumber distinct golds by this factor."""
_FEWEST = 20
"""Number of tasks with a gold below which a share says nothing."""
_FROM = 20_000
"""Rollouts to search for golds at most."""
_TASKS = 2000
"""Number of tasks with golds that is enough: a share of them is accurate to 2 points."""
_UNSTATED = 200
"""Number of tasks without any gold after which the search ends."""


@dataclass(frozen=True, slots=True)
class TrivialFloor:
    """The best trivial policy; `reward` is a share of the attainable reward."""

    policy: Policy
    reward: float

    @property
    def description(self) -> str:
        descriptions: dict[Policy, str] = {
            "always-the-most-frequent-answer": "always giving the most frequent answer",
            "right-form-wrong-answer": "keeping to the form without being right",
            "given": "a trivial policy",
        }
        return descriptions[self.policy]

    def as_json(self) -> dict[str, Any]:
        return {"policy": self.policy, "reward": round(self.reward, 4)}


def sampled_golds(rollouts: Iterable[Rollout]) -> dict[str, str]:
    """Map tasks to golds, from as many of the first rollouts as are needed to tell whether and which golds are
    labels.
    """
    golds: dict[str, str] = {}
    tasks: set[str] = set()
    for rollout in islice(rollouts, _FROM):
        if rollout.task in tasks:
            continue
        tasks.add(rollout.task)
        answer = gold(rollout)
        if answer is not None:
            golds[rollout.task] = answer
        longer = answer is not None and len(answer.strip()) > _LABEL
        if longer or len(golds) >= _TASKS or (not golds and len(tasks) >= _UNSTATED):
            break
    return golds


def majority_share(golds: Mapping[str, str]) -> float | None:
    """Return the share of tasks that the most frequent gold answers; None where golds are no labels."""
    counts = Counter(answer.strip().casefold()[: _LABEL + 1] for answer in golds.values())
    if len(golds) < _FEWEST or len(counts) * _REPEATED > len(golds) or any(len(a) > _LABEL for a in counts):
        return None
    return counts.most_common(1)[0][1] / len(golds)


def trivial_floor(form_weight: float | None, best: float, golds: Mapping[str, str] | None) -> TrivialFloor | None:
    """Return the best trivial policy that these rollouts reveal. `form_weight` is the reward for the format alone."""
    form = min(1.0, (form_weight or 0.0) / best)
    share = majority_share(golds) if golds else None
    if share is not None:
        return TrivialFloor("always-the-most-frequent-answer", share + (1 - share) * form)
    return TrivialFloor("right-form-wrong-answer", form) if form > 0 else None
