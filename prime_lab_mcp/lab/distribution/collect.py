"""Per-task accumulators: one pass over the rollouts, memory in proportion to tasks and one number per rollout."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prime_lab_mcp.lab.evals.results import Rollout


@dataclass(slots=True)
class Part:
    """Sums of one component over a task's scored rollouts; `crossed` with the total reward."""

    n: int = 0
    scores: float = 0.0
    rewards: float = 0.0
    crossed: float = 0.0

    def add(self, score: float, reward: float) -> None:
        self.n += 1
        self.scores += score
        self.rewards += reward
        self.crossed += score * reward

    @property
    def covariation(self) -> float:
        return self.crossed - self.scores * self.rewards / self.n


@dataclass(slots=True)
class Task:
    rewards: array[float] = field(default_factory=lambda: array("d"))
    lengths: array[float] = field(default_factory=lambda: array("d"))
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return math.fsum(self.rewards) / len(self.rewards)

    @property
    def variation(self) -> float:
        """Sum of squared deviations from the task's mean."""
        mean = self.mean
        return math.fsum((r - mean) ** 2 for r in self.rewards)


@dataclass(slots=True)
class Sample:
    """Everything judged about a set of rollouts. Rewards are as the environment gave them."""

    tasks: dict[str, Task] = field(default_factory=dict)
    """Tasks with at least one scored rollout."""
    seen: set[str] = field(default_factory=set)
    rollouts: int = 0
    errors: int = 0
    nonfinite: int = 0
    truncated: int = 0
    prompts: array[float] = field(default_factory=lambda: array("d"))
    """Prompt tokens of every scored rollout."""
    weights: dict[str, float | None] = field(default_factory=dict)
    stated: float = 0.0
    """The largest sum of positive weights that one rollout stated."""

    @property
    def completed(self) -> int:
        return self.rollouts - self.errors

    @property
    def scored(self) -> int:
        return self.completed - self.nonfinite


def collect(rollouts: Iterable[Rollout], weights: Mapping[str, float]) -> Sample:
    """Take in rollouts. Failed ones are counted and otherwise left out: an error is not a wrong answer."""
    sample = Sample()
    for rollout in rollouts:
        sample.rollouts += 1
        sample.seen.add(rollout.task)
        if rollout.error is not None:
            sample.errors += 1
            continue
        sample.truncated += rollout.truncated
        if rollout.reward is None or rollout.nonfinite:
            sample.nonfinite += 1
            continue
        _add(sample, rollout, rollout.reward, weights)
    return sample


def _add(sample: Sample, rollout: Rollout, reward: float, weights: Mapping[str, float]) -> None:
    task = sample.tasks.get(rollout.task)
    if task is None:
        task = sample.tasks[rollout.task] = Task()
    task.rewards.append(reward)
    task.lengths.append(float(rollout.completion_tokens))
    sample.prompts.append(float(rollout.prompt_tokens))
    stated = 0.0
    for name, (score, own) in rollout.components.items():
        weight = own if own is not None else weights.get(name)
        if own is None and weights and weight is None:
            continue  # v0 lists metrics of weight nothing among its reward functions
        sample.weights[name] = weight
        stated += max(0.0, weight or 0.0)
        part = task.parts.get(name)
        if part is None:
            part = task.parts[name] = Part()
        part.add(score, reward)
    sample.stated = max(sample.stated, stated)
