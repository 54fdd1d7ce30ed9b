"""Inputs and results of a view, and the rollouts of an evaluation as columns of numbers.

`FinishedEvaluation` reads the rollouts anew on every call. `Columns` needs 17 bytes a rollout, so that a million
rollouts fit in memory.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.distribution.sample import EPSILON, PASS_THRESHOLD, attainable_reward
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.rollouts.components import earned_for_answer
from prime_lab_mcp.lab.rollouts.rollout import Rollout


@dataclass(frozen=True, slots=True)
class FinishedEvaluation:
    """One finished evaluation. Every call of `rollouts()` reads the results anew, one rollout at a time."""

    id: str
    spec: EvalSpec
    rollouts: Callable[[], Iterator[Rollout]]


@dataclass(frozen=True, slots=True)
class ViewResult:
    """One sentence and the data behind it. Foreign text in `data` is quoted and cut."""

    summary: str
    data: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    next: tuple[Next, ...] = field(default=())


FAILED_ROLLOUT, TRUNCATED_ROLLOUT, ZERO_ROLLOUT = 1, 2, 4
"""Bits of `flags`: failed or without a finite reward; truncated; rewarded for nothing but its form, if at all."""
_MOST_TOKENS = 2**32 - 1


@dataclass(slots=True)
class Columns:
    """Arrays with one entry per rollout, in the order of `add`. `reward` is NaN where a rollout has no reward."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of the environment's rewards, for results that do not store them (v0)."""
    keys: dict[str, int] = field(default_factory=dict)
    """Task key to the number of the task."""
    task: array[int] = field(default_factory=lambda: array("I"))
    reward: array[float] = field(default_factory=lambda: array("d"))
    length: array[int] = field(default_factory=lambda: array("I"))
    """Completion tokens of each rollout."""
    flags: array[int] = field(default_factory=lambda: array("B"))
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _declared: float = 0.0
    _highest: float = 0.0

    def __len__(self) -> int:
        return len(self.task)

    def add(self, rollout: Rollout) -> int:
        """Add one rollout; return the number of its task."""
        number = self.keys.setdefault(rollout.task, len(self.keys))
        failed = rollout.error is not None or rollout.reward is None or rollout.nonfinite
        reward = math.nan if failed or rollout.reward is None else rollout.reward
        zero = not failed and not earned_for_answer(rollout, self.weights)
        self.task.append(number)
        self.reward.append(reward)
        self.length.append(min(max(rollout.completion_tokens, 0), _MOST_TOKENS))
        self.flags.append(FAILED_ROLLOUT * failed | TRUNCATED_ROLLOUT * rollout.truncated | ZERO_ROLLOUT * zero)
        self.prompt_tokens += rollout.prompt_tokens
        self.completion_tokens += rollout.completion_tokens
        if not failed:
            self._highest = max(self._highest, reward)
            self._declared = max(self._declared, math.fsum(max(0.0, w or 0.0) for _, w in rollout.components.values()))
        return number

    @property
    def best(self) -> float:
        """The attainable reward."""
        declared = math.fsum(w for w in self.weights.values() if w > 0)
        return attainable_reward(max(self._declared, declared), self._highest) or 1.0

    def scored(self, index: int) -> bool:
        """Whether the rollout at this index has a reward."""
        return not self.flags[index] & FAILED_ROLLOUT

    def passed(self, index: int, best: float) -> bool:
        """Whether the rollout at this index has half of the attainable reward `best`, some of it for its answer."""
        flags = self.flags[index]
        return not flags & (FAILED_ROLLOUT | ZERO_ROLLOUT) and self.reward[index] >= PASS_THRESHOLD * best

    def tallies(self) -> list[TaskTally]:
        """Return the scored rollouts of each task, in the order of the task numbers."""
        best = self.best
        tallies = [TaskTally() for _ in self.keys]
        for index, number in enumerate(self.task):
            if self.scored(index):
                tallies[number].add(self.reward[index] / best, passed=self.passed(index, best))
        return tallies


@dataclass(slots=True)
class TaskTally:
    """Sums over the scored rollouts of one task. Rewards are shares of the attainable reward."""

    n: int = 0
    total: float = 0.0
    passed: int = 0
    perfect: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, share: float, *, passed: bool) -> None:
        """Add one rollout by its share of the attainable reward, and whether the rollout is solved."""
        self.n += 1
        self.total += share
        self.passed += passed
        self.perfect += share >= 1 - EPSILON
        self.low, self.high = min(self.low, share), max(self.high, share)

    @property
    def mean(self) -> float:
        return self.total / self.n


def scored_tasks(tallies: Sequence[TaskTally]) -> Iterator[TaskTally]:
    """Yield the tallies of tasks with at least one scored rollout."""
    return (t for t in tallies if t.n)
