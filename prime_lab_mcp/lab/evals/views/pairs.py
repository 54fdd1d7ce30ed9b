"""One side of a comparison, and what two sides have in common: sums per task, never rollouts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.distribution.attainable import attainable
from prime_lab_mcp.lab.distribution.tasks import PASS_THRESHOLD
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.views.viewed import Evaluated
from prime_lab_mcp.lab.text import rounded

"""Share of passed rollouts from which on a task counts as solved; it flipped where the other side passed none."""


@dataclass(slots=True)
class Sums:
    """Of one task: rewards as given; `parts` are component to [rollouts, sum of scores]."""

    n: int = 0
    total: float = 0.0
    rewards: array[float] = field(default_factory=lambda: array("d"))
    parts: dict[str, list[float]] = field(default_factory=dict)
    solved: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.n


@dataclass(slots=True)
class Side:
    """One evaluation by task. Failed rollouts are counted and otherwise left out."""

    best: float = 1.0
    tasks: dict[str, Sums] = field(default_factory=dict)
    rollouts: int = 0
    errors: int = 0
    truncated: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    @classmethod
    def read(cls, evaluated: Evaluated) -> Side:
        side = cls()
        weights = evaluated.spec.weights
        stated, highest = math.fsum(w for w in weights.values() if w > 0), 0.0
        for rollout in evaluated.rollouts():
            side.rollouts += 1
            side.truncated += rollout.truncated
            side.prompt_tokens += rollout.prompt_tokens
            side.completion_tokens += rollout.completion_tokens
            if rollout.error is not None or rollout.reward is None or rollout.nonfinite:
                side.errors += 1
                continue
            sums = side.tasks.setdefault(rollout.task, Sums())
            sums.n += 1
            sums.total += rollout.reward
            sums.rewards.append(rollout.reward)
            highest = max(highest, rollout.reward)
            stated = max(stated, math.fsum(max(0.0, w or 0.0) for _, w in rollout.components.values()))
            for name, (score, _) in rollout.components.items():
                part = sums.parts.setdefault(name, [0.0, 0.0])
                part[0] += 1
                part[1] += score
        side.best = attainable(stated, highest) or 1.0
        for sums in side.tasks.values():
            sums.solved = sum(r >= PASS_THRESHOLD * side.best for r in sums.rewards) / sums.n
            sums.rewards = array("d")
        price = evaluated.spec.price
        side.cost = price.of(side.prompt_tokens, side.completion_tokens) if price else None
        return side

    def as_json(self) -> dict[str, Any]:
        scored = max(self.rollouts - self.errors, 1)
        means = [s.mean / self.best for s in self.tasks.values()]
        found: dict[str, Any] = {
            "mean": rounded(math.fsum(means) / len(means)) if means else None,
            "attainable": rounded(self.best),
            "pass_rate": rounded(math.fsum(s.solved * s.n for s in self.tasks.values()) / scored),
            "tasks": len(self.tasks),
            "rollouts": self.rollouts,
            "errors": self.errors,
            "truncated": self.truncated,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "tokens_a_rollout": round(self.completion_tokens / max(self.rollouts, 1), 1),
        }
        return found | ({"cost": round(self.cost, 4)} if self.cost is not None else {})


def differences(mine: Side, theirs: Side, shared: Sequence[str]) -> dict[str, list[float]]:
    """Component to the differences of its mean score, over tasks where both sides have it."""
    found: dict[str, list[float]] = {}
    for key in shared:
        here, there = mine.tasks[key].parts, theirs.tasks[key].parts
        for name in here.keys() & there.keys():
            found.setdefault(name, []).append(here[name][1] / here[name][0] - there[name][1] / there[name][0])
    return found


def flipped(mine: Side, theirs: Side, shared: Sequence[str]) -> tuple[list[str], list[str]]:
    """(tasks solved here and never there, the reverse): passed in half of the rollouts at least, and in none."""
    gained = [k for k in shared if mine.tasks[k].solved >= PASS_THRESHOLD and theirs.tasks[k].solved == 0]
    lost = [k for k in shared if theirs.tasks[k].solved >= PASS_THRESHOLD and mine.tasks[k].solved == 0]
    return gained, lost


def settings(here: EvalSpec, there: EvalSpec) -> Mapping[str, Any]:
    """Name to [here, there] of what the two were made with differently."""
    both = {
        "model": (here.model, there.model),
        "environment": (here.environment, there.environment),
        "source": (here.source[:12], there.source[:12]),
        "temperature": (here.temperature, there.temperature),
        "max_tokens": (here.max_tokens, there.max_tokens),
        "env_args": (dict(here.env_args), dict(there.env_args)),
        "harness": (here.harness_name, there.harness_name),
        "verifiers": (here.verifiers, there.verifiers),
        "rollouts": (here.rollouts, there.rollouts),
    }
    return {name: list(values) for name, values in both.items() if values[0] != values[1]}
