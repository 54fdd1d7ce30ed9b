"""Populations of tasks whose chances are known, for `benchmarks.statistics`: how rewards look, and what is true."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from prime_lab_mcp.lab.rollouts.rollout import Rollout

_POINTS = 2000
"""Of a grid over quantiles, where an expectation has no closed form."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Part:
    """`weight` of the tasks have chances from Beta(a, b), or the chance `a` where there is no b."""

    weight: float
    a: float
    b: float | None = None

    def chance(self, rng: random.Random) -> float:
        return self.a if self.b is None else rng.betavariate(self.a, self.b)

    def moment(self, right: int, wrong: int) -> float:
        """The expectation of p^right (1 - p)^wrong."""
        if self.b is None:
            return float(self.a**right * (1 - self.a) ** wrong)
        a, b = self.a, self.b
        up = math.lgamma(a + right) - math.lgamma(a) + math.lgamma(b + wrong) - math.lgamma(b)
        return math.exp(up - math.lgamma(a + b + right + wrong) + math.lgamma(a + b))


@dataclass(frozen=True)
class LogitNormal(Part):
    """Chances whose log odds are normal: `a` their mean, `b` their deviation."""

    def chance(self, rng: random.Random) -> float:
        return self._chance(rng.gauss(0, 1))

    def moment(self, right: int, wrong: int) -> float:
        return math.fsum(p**right * (1 - p) ** wrong for p in self._grid) / _POINTS

    @cached_property
    def _grid(self) -> list[float]:
        return [self._chance(_NORMAL.inv_cdf((i + 0.5) / _POINTS)) for i in range(_POINTS)]

    def _chance(self, z: float) -> float:
        return 1 / (1 + math.exp(-(self.a + (self.b or 0.0) * z)))


@dataclass(frozen=True)
class Population:
    """Tasks of known chances, rewarded 1 or 0.

    `form`: chance of keeping the form, for a reward of correct + `form_weight` form. `lost`: share of rollouts that
    fail. `uneven`: a task has 2 rollouts up to all of them, any number as likely. `alike`: so many tasks in a row
    share one chance; what assumes that tasks are independent cannot hold there. `inside`: this population lies in the
    family that the extrapolation assumes, tasks from one Beta.
    """

    name: str
    parts: tuple[Part, ...]
    form: float | None = None
    inside: bool = True
    form_weight: float = 0.1
    lost: float = 0.0
    uneven: bool = False
    alike: int = 1

    def moment(self, right: int, wrong: int) -> float:
        return math.fsum(p.weight * p.moment(right, wrong) for p in self.parts)

    @cached_property
    def mean(self) -> float:
        """Of reward / attainable."""
        solved = self.moment(1, 0)
        return solved if self.form is None else (solved + self.form_weight * self.form) / (1 + self.form_weight)

    def usable(self, group: int) -> float:
        """The share of groups of this size with two different answers. Groups that differ in form alone teach form."""
        return 1 - self.same(group)

    def same(self, group: int) -> float:
        """The chance that a group of answers to one task earns the same."""
        return self.moment(group, 0) + self.moment(0, group)

    def draw(self, rng: random.Random, tasks: int, rollouts: int) -> Iterator[Rollout]:
        chance = 0.0
        for task in range(tasks):
            if task % self.alike == 0:
                chance = self.level(rng)
            for _ in range(rng.randint(2, rollouts) if self.uneven else rollouts):
                if self.lost and rng.random() < self.lost:
                    yield Rollout(str(task), None, error="lost")
                else:
                    yield self._rollout(rng, str(task), chance)

    def level(self, rng: random.Random) -> float:
        return rng.choices(self.parts, [p.weight for p in self.parts])[0].chance(rng)

    def score(self, rng: random.Random, level: float) -> float:
        return float(rng.random() < level)

    def _rollout(self, rng: random.Random, task: str, level: float) -> Rollout:
        score = self.score(rng, level)
        if self.form is None:
            return Rollout(task, score)
        kept = float(rng.random() < self.form)
        components = {"correct": (score, 1.0), "format": (kept, self.form_weight)}
        return Rollout(task, score + self.form_weight * kept, components)


@dataclass(frozen=True)
class Thirds(Population):
    """Partial credit: three parts of an answer, each right with the task's chance."""

    def same(self, group: int) -> float:
        return math.fsum(math.comb(3, k) ** group * self.moment(k * group, (3 - k) * group) for k in range(4))

    def score(self, rng: random.Random, level: float) -> float:
        return sum(rng.random() < level for _ in range(3)) / 3


@dataclass(frozen=True)
class Continuous(Population):
    """Rewards around a task's own level, which lies evenly between `low` and `high`, with uniform noise: all differ."""

    low: float = 0.3
    high: float = 0.7
    noise: float = 0.3

    @cached_property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def same(self, group: int) -> float:
        return 0.0

    def level(self, rng: random.Random) -> float:
        return rng.uniform(self.low, self.high)

    def score(self, rng: random.Random, level: float) -> float:
        return level + rng.uniform(-self.noise, self.noise)


@dataclass(frozen=True)
class Clipped(Continuous):
    """The same with normal noise, clipped to [0, 1]: at the ends rewards agree."""

    @cached_property
    def mean(self) -> float:
        return math.fsum(self._clipped(level) for level in self._levels) / _POINTS

    def same(self, group: int) -> float:
        ends = [(_NORMAL.cdf(-m / self.noise), 1 - _NORMAL.cdf((1 - m) / self.noise)) for m in self._levels]
        return math.fsum(zero**group + one**group for zero, one in ends) / _POINTS

    def score(self, rng: random.Random, level: float) -> float:
        return min(1.0, max(0.0, rng.gauss(level, self.noise)))

    @cached_property
    def _levels(self) -> list[float]:
        return [self.low + (self.high - self.low) * (i + 0.5) / _POINTS for i in range(_POINTS)]

    def _clipped(self, m: float) -> float:
        a, b = -m / self.noise, (1 - m) / self.noise
        inside = m * (_NORMAL.cdf(b) - _NORMAL.cdf(a)) + self.noise * (_NORMAL.pdf(a) - _NORMAL.pdf(b))
        return inside + 1 - _NORMAL.cdf(b)
