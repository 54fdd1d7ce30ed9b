"""The input and the result of every view of an evaluation, and the numbers of its rollouts as columns.

`Columns` needs 17 bytes for each rollout, so that a million rollouts fit in memory.
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
    """One finished evaluation: the input of a view.

    Every call of `rollouts()` reads the results again, one rollout at a time.
    """

    id: str
    spec: EvalSpec
    rollouts: Callable[[], Iterator[Rollout]]


@dataclass(frozen=True, slots=True)
class ViewResult:
    """The result of a view: a sentence, its data, findings and next calls.

    Text from tasks and models in `data` is quoted and cut.
    """

    summary: str
    data: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    next: tuple[Next, ...] = field(default=())


FAILED_ROLLOUT, TRUNCATED_ROLLOUT, ZERO_ROLLOUT, UNCALLED_ROLLOUT = 1, 2, 4, 8
"""Bits of `Columns.flags`. A failed rollout has an error or no finite reward. A zero rollout earned nothing for its
answer, though it may have earned something for its form. An uncalled rollout called none of the tools it was
offered."""
_MOST_TOKENS = 2**32 - 1
"""The largest number that a column of tokens can hold."""


@dataclass(slots=True)
class Columns:
    """The numbers of rollouts: arrays with one entry for each rollout, in the order of `add`."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of the environment's rewards, for results that do not store them (v0)."""
    keys: dict[str, int] = field(default_factory=dict)
    """Number of each task by its key."""
    task: array[int] = field(default_factory=lambda: array("I"))
    """Number of the rollout's task."""
    reward: array[float] = field(default_factory=lambda: array("d"))
    """Reward; NaN for a failed rollout."""
    length: array[int] = field(default_factory=lambda: array("I"))
    """Completion tokens."""
    flags: array[int] = field(default_factory=lambda: array("B"))
    """Sum of the bits above."""
    prompt_tokens: int = 0
    """Prompt tokens of all rollouts together."""
    completion_tokens: int = 0
    """Completion tokens of all rollouts together."""
    _declared: float = 0.0
    """Largest sum of positive weights that a rollout states."""
    _highest: float = 0.0
    """Highest reward."""

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
        uncalled = rollout.called_tool is False
        self.flags.append(
            FAILED_ROLLOUT * failed
            | TRUNCATED_ROLLOUT * rollout.truncated
            | ZERO_ROLLOUT * zero
            | UNCALLED_ROLLOUT * uncalled
        )
        self.prompt_tokens += rollout.prompt_tokens
        self.completion_tokens += rollout.completion_tokens
        if not failed:
            self._highest = max(self._highest, reward)
            self._declared = max(self._declared, math.fsum(max(0.0, w or 0.0) for _, w in rollout.components.values()))
        return number

    @property
    def best(self) -> float:
        """The attainable reward, from the weights of the rewards and the highest reward."""
        declared = math.fsum(w for w in self.weights.values() if w > 0)
        return attainable_reward(max(self._declared, declared), self._highest) or 1.0

    def scored(self, index: int) -> bool:
        """Whether the rollout at this index has a reward."""
        return not self.flags[index] & FAILED_ROLLOUT

    def passed(self, index: int, best: float) -> bool:
        """Whether the rollout at this index earned at least half of the attainable reward `best`.

        A rollout that earned nothing for its answer has not passed.
        """
        flags = self.flags[index]
        return not flags & (FAILED_ROLLOUT | ZERO_ROLLOUT) and self.reward[index] >= PASS_THRESHOLD * best

    def tallies(self) -> list[TaskTally]:
        """Return the tally of each task, in the order of the task numbers."""
        best = self.best
        tallies = [TaskTally() for _ in self.keys]
        for index, number in enumerate(self.task):
            if self.scored(index):
                tallies[number].add(self.reward[index] / best, passed=self.passed(index, best))
        return tallies


@dataclass(slots=True)
class TaskTally:
    """Sums over the scored rollouts of one task. Rewards are shares of the attainable reward.

    `n` counts the rollouts, `total` is the sum of their rewards, `low` and `high` are their lowest and highest reward.
    """

    n: int = 0
    total: float = 0.0
    passed: int = 0
    perfect: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, share: float, *, passed: bool) -> None:
        """Add one rollout. `share` is its reward as a share of the attainable, `passed` the value of Columns.passed."""
        self.n += 1
        self.total += share
        self.passed += passed
        self.perfect += share >= 1 - EPSILON
        self.low, self.high = min(self.low, share), max(self.high, share)

    @property
    def mean(self) -> float:
        """Mean reward of the task."""
        return self.total / self.n


def scored_tasks(tallies: Sequence[TaskTally]) -> Iterator[TaskTally]:
    """Yield the tallies of tasks with at least one scored rollout."""
    return (t for t in tallies if t.n)
