"""The statistics of check_reward_distribution against simulations with known truth: `python -m benchmarks.statistics`.

For populations of tasks whose chances are known, a sample of tasks and rollouts is judged again and again. Printed
are: how often the interval of the mean and of the usable share of groups holds the truth (nominal 95 %), the bias of
the usable share, and how often the verdict on that share passes, fails or is open, beside what is true.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.distribution import Distribution, judge
from prime_lab_mcp.lab.distribution.advice import USABLE_FAIL
from prime_lab_mcp.lab.evals.results import Rollout

GROUP = 16
REPEATS = 16
SLACK = 0.005
"""An interval that misses by less than this covers: a share of 1.000 instead of 0.998 decides nothing."""
FORMAT_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """`weight` of the tasks have chances from Beta(a, b), or the chance `a` where there is no b."""

    weight: float
    a: float
    b: float | None = None

    def chance(self, rng: random.Random) -> float:
        return self.a if self.b is None else rng.betavariate(self.a, self.b)

    @property
    def mean(self) -> float:
        return self.a if self.b is None else self.a / (self.a + self.b)

    def same(self, group: int) -> float:
        """The chance that a group of rollouts of one task agrees."""
        a, b = self.a, self.b
        if b is None:
            return a**group + (1 - a) ** group

        def all_of(x: float) -> float:
            return math.exp(math.lgamma(x + group) - math.lgamma(x) - math.lgamma(a + b + group) + math.lgamma(a + b))

        return all_of(a) + all_of(b)


@dataclass(frozen=True, slots=True)
class Population:
    """Tasks of known chances. `form`: chance of keeping the form, for a reward of correct + 0.1 form.

    `inside`: this population lies in the family that the extrapolation assumes, tasks from one Beta.
    """

    name: str
    parts: tuple[Part, ...]
    form: float | None = None
    inside: bool = True

    @property
    def mean(self) -> float:
        """Of reward / attainable."""
        solved = math.fsum(p.weight * p.mean for p in self.parts)
        return solved if self.form is None else (solved + FORMAT_WEIGHT * self.form) / (1 + FORMAT_WEIGHT)

    @property
    def usable(self) -> float:
        same = math.fsum(p.weight * p.same(GROUP) for p in self.parts)
        if self.form is not None:
            same *= self.form**GROUP + (1 - self.form) ** GROUP
        return 1 - same

    def draw(self, rng: random.Random, tasks: int, rollouts: int) -> Iterator[Rollout]:
        weights = [p.weight for p in self.parts]
        for task in range(tasks):
            chance = rng.choices(self.parts, weights)[0].chance(rng)
            for _ in range(rollouts):
                correct = float(rng.random() < chance)
                if self.form is None:
                    yield Rollout(str(task), correct)
                    continue
                kept = float(rng.random() < self.form)
                components = {"correct": (correct, 1.0), "format": (kept, FORMAT_WEIGHT)}
                yield Rollout(str(task), correct + FORMAT_WEIGHT * kept, components)


@dataclass(frozen=True, slots=True)
class Continuous(Population):
    """Rewards clipped to [0, 1] around a task's own level, so that any two differ: every group is usable."""

    @property
    def mean(self) -> float:
        return 0.5

    @property
    def usable(self) -> float:
        return 1.0

    def draw(self, rng: random.Random, tasks: int, rollouts: int) -> Iterator[Rollout]:
        for task in range(tasks):
            level = rng.uniform(0.3, 0.7)
            for _ in range(rollouts):
                yield Rollout(str(task), level + rng.uniform(-0.3, 0.3))


POPULATIONS: tuple[Population, ...] = (
    Population("Beta(.5, .5)", (Part(1, 0.5, 0.5),)),
    Population("Beta(.3, .6)", (Part(1, 0.3, 0.6),)),
    Population("Beta(4, 4)", (Part(1, 4, 4),)),
    Population("Beta(.2, 4): 5 % solved", (Part(1, 0.2, 4),)),
    Population("Beta(.02, .02): nearly divided", (Part(1, 0.02, 0.02),)),
    Population("Beta(.05, .5): hard", (Part(1, 0.05, 0.5),)),
    Population("all tasks .01", (Part(1, 0.01),)),
    Population("all tasks .05", (Part(1, 0.05),)),
    Population("all tasks .5", (Part(1, 0.5),)),
    Population("half always, half never", (Part(0.5, 0.0), Part(0.5, 1.0))),
    Population("never 45 %, always 45 %, .5", (Part(0.45, 0), Part(0.45, 1), Part(0.1, 0.5)), inside=False),
    Population("never 70 %, else Beta(2, 2)", (Part(0.7, 0.0), Part(0.3, 2, 2)), inside=False),
    Population("half .02, half .98", (Part(0.5, 0.02), Part(0.5, 0.98)), inside=False),
    Population("Beta(.5, .5), form always", (Part(1, 0.5, 0.5),), form=1.0),
    Population("Beta(.5, .5), form .95", (Part(1, 0.5, 0.5),), form=0.95, inside=False),
    Continuous("continuous", ()),
)
SIZES = ((30, 4), (50, 4), (50, 8), (100, 8))


@dataclass(slots=True)
class Row:
    """What happened to one population at one size of sample."""

    population: Population
    tasks: int
    rollouts: int
    repeats: int = 0
    mean_held: int = 0
    usable_held: int = 0
    off: float = 0.0
    passed: int = 0
    failed: int = 0

    def add(self, found: Distribution) -> None:
        self.repeats += 1
        truth, share = self.population.usable, found.usable_groups
        assert share.share is not None
        assert share.low is not None
        assert share.high is not None
        assert found.mean_low is not None
        assert found.mean_high is not None
        self.mean_held += found.mean_low - 1e-9 <= self.population.mean <= found.mean_high + 1e-9
        self.usable_held += share.low - SLACK <= truth <= share.high + SLACK
        self.off += share.share - truth
        codes = {f.code for f in found.findings}
        no_signal = "distribution-no-signal" in codes
        self.failed += no_signal
        self.passed += not no_signal and share.low > USABLE_FAIL

    @property
    def bias(self) -> float:
        return self.off / self.repeats

    @property
    def wrong(self) -> int:
        """Verdicts on the usable share that are the opposite of the truth."""
        return self.failed if self.population.usable >= USABLE_FAIL else self.passed

    def line(self) -> str:
        n = self.repeats
        opened, truth = n - self.passed - self.failed, self.population.usable
        return (
            f"{self.population.name:28} {self.tasks:4} x {self.rollouts:2}  {self.population.mean:5.2f} "
            f"{self.mean_held / n:6.0%}   {truth:5.2f} {self.usable_held / n:6.0%}  {self.bias:+.3f}   "
            f"{self.passed / n:5.0%} {self.failed / n:5.0%} {opened / n:5.0%}   {self.wrong / n:5.0%}"
        )


def simulate(population: Population, tasks: int, rollouts: int, repeats: int) -> Row:
    """Deterministic: the same numbers in every run."""
    row = Row(population, tasks, rollouts)
    for repeat in range(repeats):
        rng = random.Random(f"{population.name}/{tasks}/{rollouts}/{repeat}")
        row.add(judge(population.draw(rng, tasks, rollouts), group_size=GROUP))
    return row


def advice(population: Population, tasks: int, rollouts: int, repeats: int) -> tuple[int, int]:
    """Of evaluations whose usable share was open: how many there were, and how many a sample as advised decided."""
    from prime_lab_mcp.lab.distribution.intervals import Interval

    asked = decided = 0
    for repeat in range(repeats):
        rng = random.Random(f"advice/{population.name}/{tasks}/{repeat}")
        share = judge(population.draw(rng, tasks, rollouts), group_size=GROUP).usable_groups
        assert share.share is not None
        assert share.low is not None
        assert share.high is not None
        interval = Interval(share.share, share.low, share.high)
        needed = interval.tasks_to_decide(USABLE_FAIL, tasks) if interval.side(USABLE_FAIL) == "across" else None
        if needed is None or needed > 2000:
            continue
        again = judge(population.draw(rng, needed, rollouts), group_size=GROUP).usable_groups
        asked += 1
        decided += (again.low or 0.0) > USABLE_FAIL or (again.high or 0.0) < USABLE_FAIL
    return asked, decided


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics", description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="samples per line (default: %(default)s)")
    repeats = parser.parse_args(arguments).repeats
    print(f"{repeats} samples a line, groups of {GROUP}; a share of usable groups below {USABLE_FAIL:.0%} fails")
    print(f"{'':28} {'':9}   mean held    usable held    bias   passed failed open  wrong")
    rows = []
    for population in POPULATIONS:
        for tasks, rollouts in SIZES:
            rows.append(simulate(population, tasks, rollouts, repeats))
            print(rows[-1].line(), flush=True)
    n = len(rows) * repeats
    inside = [r for r in rows if r.population.inside]
    print(f"mean held in {sum(r.mean_held for r in rows) / n:.1%}; usable share held in "
          f"{sum(r.usable_held for r in inside) / (len(inside) * repeats):.1%} where tasks come from one Beta, "
          f"{sum(r.usable_held for r in rows) / n:.1%} overall; verdicts opposite to the truth: "
          f"{sum(r.wrong for r in rows) / n:.1%}")  # fmt: skip
    asked, decided = advice(POPULATIONS[5], 50, 8, max(10, repeats // 2))
    print(f"a sample as large as advised decided {decided} of {asked} open cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
