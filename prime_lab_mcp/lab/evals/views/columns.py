"""Every rollout of an evaluation as a few numbers in arrays: 17 bytes each, so that a million fit anywhere."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.distribution.attainable import EPSILON, attainable
from prime_lab_mcp.lab.distribution.tasks import PASS_THRESHOLD
from prime_lab_mcp.lab.evals.earned import earned
from prime_lab_mcp.lab.evals.results import Rollout

FAILED, CUT, ZERO = 1, 2, 4
"""Bits of `flags`: the machinery failed or the reward is no number; cut off; earned nothing beside its form."""
_MOST_TOKENS = 2**32 - 1


@dataclass(slots=True)
class Columns:
    """One entry per rollout in every array, in the order they were added. `reward` is NaN where there is none."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Those of an environment whose results do not repeat them (v0)."""
    keys: dict[str, int] = field(default_factory=dict)
    """Task key to its number."""
    task: array[int] = field(default_factory=lambda: array("I"))
    reward: array[float] = field(default_factory=lambda: array("d"))
    length: array[int] = field(default_factory=lambda: array("I"))
    """Completion tokens."""
    flags: array[int] = field(default_factory=lambda: array("B"))
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _stated: float = 0.0
    _highest: float = 0.0

    def __len__(self) -> int:
        return len(self.task)

    def add(self, rollout: Rollout) -> int:
        """Take in one rollout; returns the number of its task."""
        number = self.keys.setdefault(rollout.task, len(self.keys))
        failed = rollout.error is not None or rollout.reward is None or rollout.nonfinite
        reward = math.nan if failed or rollout.reward is None else rollout.reward
        zero = not failed and not earned(rollout, self.weights)
        self.task.append(number)
        self.reward.append(reward)
        self.length.append(min(max(rollout.completion_tokens, 0), _MOST_TOKENS))
        self.flags.append(FAILED * failed | CUT * rollout.truncated | ZERO * zero)
        self.prompt_tokens += rollout.prompt_tokens
        self.completion_tokens += rollout.completion_tokens
        if not failed:
            self._highest = max(self._highest, reward)
            self._stated = max(self._stated, math.fsum(max(0.0, w or 0.0) for _, w in rollout.components.values()))
        return number

    @property
    def best(self) -> float:
        """The attainable reward."""
        known = math.fsum(w for w in self.weights.values() if w > 0)
        return attainable(max(self._stated, known), self._highest) or 1.0

    def scored(self, index: int) -> bool:
        return not self.flags[index] & FAILED

    def passed(self, index: int, best: float) -> bool:
        return self.scored(index) and self.reward[index] >= PASS_THRESHOLD * best

    def tallies(self) -> list[Tally]:
        """Per task, by its number, over scored rollouts."""
        best = self.best
        found = [Tally() for _ in self.keys]
        for index, number in enumerate(self.task):
            if self.scored(index):
                found[number].add(self.reward[index] / best)
        return found


@dataclass(slots=True)
class Tally:
    """Scored rollouts of one task. Rewards are of reward / attainable."""

    n: int = 0
    total: float = 0.0
    passed: int = 0
    perfect: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, share: float) -> None:
        self.n += 1
        self.total += share
        self.passed += share >= PASS_THRESHOLD
        self.perfect += share >= 1 - EPSILON
        self.low, self.high = min(self.low, share), max(self.high, share)

    @property
    def mean(self) -> float:
        return self.total / self.n


def scored(tallies: Sequence[Tally]) -> Iterator[Tally]:
    """Those of tasks with at least one scored rollout."""
    return (t for t in tallies if t.n)
