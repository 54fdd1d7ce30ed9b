"""The statistics of check_reward_distribution against simulations with known truth: `python -m benchmarks.statistics`.

For populations of tasks whose chances are known, a sample of tasks and rollouts is judged again and again. Printed
are: how often the interval of the mean and of the usable share of groups holds the truth (nominal 95 %), the bias of
the usable share, and how often the verdict on that share passes, fails or is open, beside what is true. Of two sets of
populations only the held-out one is evidence: the estimates were made while looking at the other. The last lines say
which claims hold; where one does not, the exit code is 1.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.statistics_populations import Population
from benchmarks.statistics_sets import HELD_OUT, TUNED
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.rules import MEAN_HIGH, MEAN_LOW, USABLE_FAIL
from prime_lab_mcp.lab.distribution.summary import Distribution

REPEATS = 3
SLACK = 0.005
"""An interval that misses by less than this covers: a share of 1.000 instead of 0.998 decides nothing."""
SIZES = {
    "tuned": ((30, 4, 16), (50, 4, 16), (50, 8, 16), (100, 8, 32)),
    "held_out": ((32, 4, 16), (64, 4, 8), (64, 8, 32), (100, 8, 16), (200, 4, 32), (400, 16, 16)),
}
"""Tasks, rollouts of each, and the group size of training."""
FAR = 4
"""Groups of more than so many times the rollouts of a task are known to be weak: shown without a claim."""
KNOWN_WEAK = ("Beta(.5, .5), form .95, 100 x 8 for 32",)
"""Lines that break a claim and are said to: a form kept by chance bounds every chance, which no Beta holds."""
SETS = {"tuned": TUNED, "held_out": HELD_OUT}


@dataclass(slots=True)
class Row:
    """What happened to one population at one size of sample, or to several together."""

    population: Population
    tasks: int
    rollouts: int
    group: int = 16
    repeats: int = 0
    mean_held: int = 0
    usable_held: int = 0
    off: float = 0.0
    passed: int = 0
    failed: int = 0
    wrong_mean: int = 0

    def add(self, found: Distribution) -> None:
        self.repeats += 1
        truth, share = self.truth, found.usable_groups
        assert share.share is not None
        assert share.low is not None
        assert share.high is not None
        assert found.mean_low is not None
        assert found.mean_high is not None
        self.mean_held += found.mean_low - 1e-9 <= self.population.mean <= found.mean_high + 1e-9
        self.usable_held += share.low - SLACK <= truth <= share.high + SLACK
        self.off += share.share - truth
        no_signal = any(f.code == "distribution-no-signal" for f in found.findings)
        self.failed += no_signal
        self.passed += not no_signal and share.low > USABLE_FAIL
        self.wrong_mean += opposite(self.population.mean, found.mean_low, found.mean_high)

    @property
    def truth(self) -> float:
        return self.population.usable(self.group)

    @property
    def bias(self) -> float:
        return self.off / self.repeats

    @property
    def wrong(self) -> int:
        """Verdicts on the usable share that are the opposite of the truth."""
        return self.failed if self.truth >= USABLE_FAIL else self.passed

    def line(self) -> str:
        n = self.repeats
        return (
            f"{self.population.name:30} {self.tasks:4} x {self.rollouts:2} {self.group:3}  {self.population.mean:5.2f} "
            f"{self.mean_held / n:6.0%}   {self.truth:5.2f} {self.usable_held / n:6.0%}  {self.bias:+.3f}   "
            f"{self.passed / n:5.0%} {self.failed / n:5.0%} {(n - self.passed - self.failed) / n:5.0%}   "
            f"{self.wrong / n:5.0%}"
        )


def opposite(mean: float, low: float, high: float) -> bool:
    """Whether the interval decides on the wrong side of a threshold of the mean."""
    return any(high < at <= mean or mean <= at < low for at in (MEAN_LOW, MEAN_HIGH))


def simulate(population: Population, tasks: int, rollouts: int, repeats: int, group: int = 16) -> Row:
    """Deterministic: the same numbers in every run."""
    row = Row(population, tasks, rollouts, group)
    for repeat in range(repeats):
        rng = random.Random(f"{population.name}/{tasks}/{rollouts}/{repeat}")
        row.add(judge_rollouts(population.draw(rng, tasks, rollouts), group_size=group))
    return row


def advice(population: Population, tasks: int, rollouts: int, repeats: int) -> tuple[int, int]:
    """Of evaluations whose usable share was open: how many there were, and how many a sample as advised decided."""
    from prime_lab_mcp.lab.base.statistics import Interval

    asked = decided = 0
    for repeat in range(repeats):
        rng = random.Random(f"advice/{population.name}/{tasks}/{repeat}")
        share = judge_rollouts(population.draw(rng, tasks, rollouts)).usable_groups
        assert share.share is not None
        assert share.low is not None
        assert share.high is not None
        interval = Interval(share.share, share.low, share.high)
        needed = interval.tasks_to_decide(USABLE_FAIL, tasks) if interval.side(USABLE_FAIL) == "across" else None
        if needed is None or needed > 2000:
            continue
        again = judge_rollouts(population.draw(rng, needed, rollouts)).usable_groups
        asked += 1
        decided += (again.low or 0.0) > USABLE_FAIL or (again.high or 0.0) < USABLE_FAIL
    return asked, decided


COVERAGE, OPPOSITE = 0.90, 0.025
"""The claims: intervals at 95 % hold the truth at least so often; a verdict is the opposite of it at most so often."""
_CHANCE = 0.05
"""Of saying that a claim is broken where it holds, for each claim over all lines together."""


def unlikely(hits: int, n: int, share: float, lines: int) -> bool:
    """Whether so few hits of n are too few for this share, among so many lines that are looked at."""
    tail = math.fsum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(hits + 1))
    return tail < _CHANCE / lines


def together(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Each line, and each population over its lines."""
    found = [(f"{r.population.name}, {r.tasks} x {r.rollouts} for {r.group}", [r]) for r in rows]
    names = dict.fromkeys(r.population.name for r in rows)
    return found + [(f"{name}, all sizes", [r for r in rows if r.population.name == name]) for name in names]


def broken(rows: Sequence[Row]) -> Iterator[tuple[str, list[str]]]:
    """Each claim with the lines and populations that break it beyond chance."""
    near = [r for r in rows if r.group <= FAR * r.rollouts]
    claims: tuple[tuple[str, float, Sequence[Row], Callable[[Row], int]], ...] = (
        (f"the mean's interval holds in {COVERAGE:.0%} of each line", COVERAGE, rows, lambda r: r.mean_held),
        (
            f"the usable share's interval holds in {COVERAGE:.0%} of each line with groups up to {FAR} r",
            COVERAGE,
            near,
            lambda r: r.usable_held,
        ),
        (
            f"at most {OPPOSITE:.1%} of a line's verdicts on the share are opposite",
            1 - OPPOSITE,
            rows,
            lambda r: r.repeats - r.wrong,
        ),
        (
            f"at most {OPPOSITE:.1%} of a line's verdicts on the mean are opposite",
            1 - OPPOSITE,
            rows,
            lambda r: r.repeats - r.wrong_mean,
        ),
    )
    for what, share, some, count in claims:
        lines = [(name, sum(map(count, of)), sum(r.repeats for r in of)) for name, of in together(some)]
        yield what, [f"{name}: {hits} of {n}" for name, hits, n in lines if unlikely(hits, n, share, len(lines))]


def total(rows: Sequence[Row]) -> str:
    n = sum(r.repeats for r in rows)
    passed, failed = sum(r.passed for r in rows), sum(r.failed for r in rows)
    inside = [r for r in rows if r.population.inside]
    beta = f" ({sum(r.usable_held for r in inside) / sum(r.repeats for r in inside):.1%} of one Beta)" if inside else ""
    return (
        f"in {n} samples the mean held in {sum(r.mean_held for r in rows) / n:.1%}, the usable share in "
        f"{sum(r.usable_held for r in rows) / n:.1%}{beta}; the share passed {passed} times, failed {failed}, open "
        f"{n - passed - failed}; opposite to the truth {sum(r.wrong for r in rows)}, on the mean "
        f"{sum(r.wrong_mean for r in rows)}"
    )


def run(name: str, repeats: int) -> bool:
    """Print one set of populations; whether its claims hold. Tasks that share chances are shown apart."""
    print(f"{name}: {repeats} samples a line; a share of usable groups below {USABLE_FAIL:.0%} fails")
    print(f"{'':30} {'tasks x r   G':13}   mean held    usable held    bias   passed failed open opposite")
    rows = []
    for population in SETS[name]:
        for tasks, rollouts, group in SIZES[name]:
            rows.append(simulate(population, tasks, rollouts, repeats, group))
            print(rows[-1].line(), flush=True)
    alone = [r for r in rows if r.population.alike == 1]
    shared = [r for r in rows if r.population.alike > 1]
    print(f"{name}: {total(alone)}")
    far = [r for r in alone if r.group > FAR * r.rollouts]
    if far:
        print(f"{name}, known weak, groups of more than {FAR} r alone: {total(far)}")
    if shared:
        print(f"{name}, tasks that share chances (no claim: intervals take tasks as independent): {total(shared)}")
    holds = True
    for claim, lines in broken(alone):
        weak = [at for at in lines if at.startswith(KNOWN_WEAK)]
        holds &= lines == weak
        print(f"{name}: {'holds' if lines == weak else 'BROKEN'}: {claim}")
        for at in lines:
            print(f"    {'known weak, not counted' if at in weak else 'broken'}: {at}")
    return holds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics", description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="samples per line (default: %(default)s)")
    parser.add_argument("--set", choices=(*SETS, "all"), default="all", help="populations (default: %(default)s)")
    given = parser.parse_args(arguments)
    held = [run(name, given.repeats) for name in SETS if given.set in (name, "all")]
    if given.set != "held_out":
        asked, decided = advice(TUNED[5], 50, 8, max(10, given.repeats // 2))
        print(f"a sample as large as advised decided {decided} of {asked} open cases")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
