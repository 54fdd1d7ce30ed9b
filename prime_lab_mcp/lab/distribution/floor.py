"""Estimates the reward of trivial policies, which ignore the question.

A model that earns no more than the best trivial policy cannot do the task.
"""

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
"""Longest reference answer (gold) that counts as a label, in characters."""
_REPEATED = 3
"""Golds are labels if there are at least this many tasks for each distinct gold."""
_FEWEST = 20
"""Smallest number of tasks with a gold for which a share is computed."""
_MOST_ROLLOUTS = 20_000
"""Number of rollouts that are searched for golds."""
_TASKS = 2000
"""Number of tasks with golds after which the search ends: the standard error of a share is about 1 point then."""
_TASKS_WITHOUT_GOLD = 200
"""Number of tasks after which the search ends if none of them has a gold."""


@dataclass(frozen=True, slots=True)
class TrivialFloor:
    """The best trivial policy. `reward` is its mean reward as a share of the attainable reward."""

    policy: Policy
    reward: float

    @property
    def description(self) -> str:
        """What the policy does, as a phrase for findings."""
        descriptions: dict[Policy, str] = {
            "always-the-most-frequent-answer": "always giving the most frequent answer",
            "right-form-wrong-answer": "keeping to the form without being right",
            "given": "a trivial policy",
        }
        return descriptions[self.policy]

    def as_json(self) -> dict[str, Any]:
        return {"policy": self.policy, "reward": round(self.reward, 4)}


def sampled_golds(rollouts: Iterable[Rollout]) -> dict[str, str]:
    """Map the first tasks to their golds (reference answers).

    The search reads as many rollouts as are needed to decide whether golds are labels. It ends at the first gold that
    is too long for a label.
    """
    golds: dict[str, str] = {}
    tasks: set[str] = set()
    for rollout in islice(rollouts, _MOST_ROLLOUTS):
        if rollout.task in tasks:
            continue
        tasks.add(rollout.task)
        answer = gold(rollout)
        if answer is not None:
            golds[rollout.task] = answer
        longer = answer is not None and len(answer.strip()) > _LABEL
        if longer or len(golds) >= _TASKS or (not golds and len(tasks) >= _TASKS_WITHOUT_GOLD):
            break
    return golds


def majority_share(golds: Mapping[str, str]) -> float | None:
    """Return the share of tasks that have the most frequent gold. None if the golds are not labels."""
    counts = Counter(answer.strip().casefold()[: _LABEL + 1] for answer in golds.values())
    if len(golds) < _FEWEST or len(counts) * _REPEATED > len(golds) or any(len(a) > _LABEL for a in counts):
        return None
    return counts.most_common(1)[0][1] / len(golds)


def trivial_floor(form_weight: float | None, best: float, golds: Mapping[str, str] | None) -> TrivialFloor | None:
    """Return the best trivial policy that is known, or None.

    `form_weight` is the reward for a correct format alone, and `best` the attainable reward, both unscaled.
    """
    form = min(1.0, (form_weight or 0.0) / best)
    share = majority_share(golds) if golds else None
    if share is not None:
        return TrivialFloor("always-the-most-frequent-answer", share + (1 - share) * form)
    return TrivialFloor("right-form-wrong-answer", form) if form > 0 else None
