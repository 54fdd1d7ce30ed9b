"""Estimates the reward of trivial policies, which ignore the question.

A model that earns no more than the best trivial policy cannot do the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from prime_lab_mcp.lab.base.statistics import chi_square_survival, chi_square_uniform
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


_EQUAL = 0.05
"""Counts of labels are equal, but for chance, if a chi-square test of the sample gives at least this probability."""
_BALANCED = 1.25
"""Labels are balanced if the most frequent one has at most this multiple of an equal share of the tasks."""


@dataclass(frozen=True, slots=True)
class FrequentAnswer:
    """The most frequent reference answer of all tasks of an environment.

    `answers` are the labels with the largest count, several if their counts are equal. `share` is the share of the
    tasks that have each of them, such as 1/6 of six balanced labels. `labels` is the number of distinct ones.
    """

    answers: tuple[str, ...]
    share: float
    labels: int

    def share_in(self, labels: Sequence[str]) -> float:
        """Return the share of these tasks on which always giving one of the most frequent answers is right."""
        return sum(labels.count(answer) for answer in self.answers) / len(self.answers) / len(labels)


@dataclass(frozen=True, slots=True)
class TrivialFloor:
    """The best trivial policy. `reward` is its mean reward as a share of the attainable reward.

    `highest` is the largest reward that such a policy may have. It is above `reward` if only a sample of the tasks is
    known and the counts of its labels differ no more than by chance. `balanced` says that no answer is much more
    frequent than the others.
    """

    policy: Policy
    reward: float
    highest: float
    balanced: bool = False

    @property
    def description(self) -> str:
        """What the policy does, as a phrase for findings."""
        descriptions: dict[Policy, str] = {
            "always-the-most-frequent-answer": "always giving one answer"
            if self.balanced
            else "always giving the most frequent answer",
            "right-form-wrong-answer": "keeping to the form without being right",
            "given": "a trivial policy",
        }
        return descriptions[self.policy]

    def as_json(self) -> dict[str, Any]:
        highest = {"highest": round(self.highest, 4)} if self.highest > self.reward else {}
        return {"policy": self.policy, "reward": round(self.reward, 4), **highest}


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


def frequent_answer(golds: Iterable[str]) -> FrequentAnswer | None:
    """Return the most frequent one of the golds of all tasks. None if the golds are not labels."""
    labels = [_label(answer) for answer in golds]
    counts = _label_counts(labels)
    if counts is None:
        return None
    most = max(counts.values())
    answers = tuple(sorted(label for label, count in counts.items() if count == most))
    return FrequentAnswer(answers, most / len(labels), len(counts))


def _label(answer: str) -> str:
    return answer.strip().casefold()[: _LABEL + 1]


def _label_counts(labels: Sequence[str]) -> Counter[str] | None:
    """Count the labels. None if the texts are not labels, or too few to compute a share."""
    counts = Counter(labels)
    if len(labels) < _FEWEST or len(counts) * _REPEATED > len(labels) or any(len(a) > _LABEL for a in counts):
        return None
    return counts if any(counts) else None


def trivial_floor(
    form_weight: float | None,
    best: float,
    golds: Mapping[str, str] | None,
    frequent: FrequentAnswer | None = None,
    *,
    complete: bool = False,
) -> TrivialFloor | None:
    """Return the best trivial policy that is known, or None.

    `form_weight` is the reward for a correct format alone, and `best` the attainable reward, both unscaled. `golds` are
    those of the evaluated tasks. `frequent` is the most frequent answer of all tasks of the environment, None if they
    are not known. `complete` says that every task was evaluated.

    A policy does not know which tasks are drawn. So the floor is what the answer that is the most frequent one of all
    tasks earns: on the evaluated tasks, or on all tasks if that is more. Where only the evaluated tasks are known, the
    largest share of their labels is too high for balanced labels: with six, one has 11 of 50 tasks. There the floor is
    that of equal counts, unless the counts differ more than by chance, and the largest share is `highest`.
    """
    form = min(1.0, (form_weight or 0.0) / best)
    labels = [_label(answer) for answer in (golds or {}).values()]
    if complete and labels:
        frequent = frequent_answer(labels)
    counts = _label_counts(labels)
    if frequent is not None:
        share = highest = max(frequent.share, frequent.share_in(labels) if labels else 0.0)
        equal = 1 / frequent.labels
    elif counts is not None:
        highest, equal = max(counts.values()) / len(labels), 1 / len(counts)
        even = len(counts) > 1 and chi_square_survival(*chi_square_uniform(list(counts.values()))) >= _EQUAL
        share = equal if even else highest
    else:
        return TrivialFloor("right-form-wrong-answer", form, form) if form > 0 else None
    balanced = (frequent.share if frequent is not None else share) <= _BALANCED * equal < 1
    return TrivialFloor(
        "always-the-most-frequent-answer", share + (1 - share) * form, highest + (1 - highest) * form, balanced
    )
