"""Judges a set of rollouts: one pass to collect, then estimates, then the decision table (`decide`)."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from prime_lab_mcp.lab.distribution import lengths
from prime_lab_mcp.lab.distribution.attainable import EPSILON
from prime_lab_mcp.lab.distribution.attainable import attainable as highest_of
from prime_lab_mcp.lab.distribution.collect import Sample, collect
from prime_lab_mcp.lab.distribution.components import components, means_by_task
from prime_lab_mcp.lab.distribution.decide import decide
from prime_lab_mcp.lab.distribution.floor import Floor, floor_of
from prime_lab_mcp.lab.distribution.forms import form
from prime_lab_mcp.lab.distribution.intervals import Interval, clustered, spread
from prime_lab_mcp.lab.distribution.measured import Measured
from prime_lab_mcp.lab.distribution.signal import Outcomes, usable
from prime_lab_mcp.lab.distribution.summary import Basis, Component, Distribution, Usable
from prime_lab_mcp.lab.distribution.tasks import (
    PASS_THRESHOLD,
    Task,
    difficulty,
    learnability,
    pass_at_k,
    signal_fraction,
    std,
    tasks_of,
)
from prime_lab_mcp.lab.evals.results import Rollout

_EXACT_OUTCOMES = 12
"""Up to this many distinct rewards each is an outcome of its own; beyond, rewards are continuous and binned."""
_BIN = 0.05
_EASY = 0.9


def judge(
    rollouts: Iterable[Rollout],
    *,
    group_size: int = 16,
    attainable: float | None = None,
    weights: Mapping[str, float] | None = None,
    floor: float | None = None,
    golds: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Distribution:
    """Whether training on what these rollouts come from would teach anything. Deterministic for the same rollouts.

    `weights` are those of an environment whose results do not repeat them (v0). `floor` is what a trivial policy gets,
    as reward / attainable; without it the rollouts and `golds` (task to right answer, of some tasks) tell.
    """
    known = dict(weights or {})
    sample = collect(rollouts, known)
    best, basis = _best(sample, attainable, known)
    tasks = tasks_of(sample)
    grouped = [t for t in tasks if len(t.rewards) > 1]
    mean, error = clustered([t.mean / best for t in tasks], sample.scored)
    signal = usable(outcomes(grouped, best), group_size, seed) if grouped else None
    passes = [r >= PASS_THRESHOLD * best for r in sample.rewards]
    parts = components(sample, grouped)
    found, kept = sample.form, None
    if found is not None:
        kept, _ = clustered(*means_by_task(found[1], tasks))
    facts = Distribution(
        status="passed",
        findings=(),
        tasks=len(sample.index),
        rollouts=sample.rollouts,
        scored=sample.scored,
        errors=sample.errors,
        attainable=best,
        attainable_from=basis,
        mean=mean.value if tasks else None,
        mean_low=mean.low if tasks else None,
        mean_high=mean.high if tasks else None,
        standard_error=error if tasks else None,
        std=std(tasks, best),
        checks=(),
        usable_groups=_usable(signal, group_size),
        zero_variance_share=_zero_variance(grouped, best),
        signal_fraction=signal_fraction(tasks),
        pass_at_k=pass_at_k(tasks, best),
        pass_threshold=PASS_THRESHOLD,
        pass_rate=sum(passes) / sample.scored if sample.scored else None,
        perfect_rate=_perfect(sample, best),
        difficulty=difficulty(tasks, best),
        error_rate=sample.errors / sample.rollouts if sample.rollouts else 0.0,
        truncation_rate=sample.truncated / sample.completed if sample.completed else 0.0,
        length_correlation=lengths.correlation(grouped, sample.lengths),
        components=parts,
        learnability=learnability(grouped, best),
        prompt_tokens=lengths.percentiles_of(sample.prompts),
        completion_tokens=lengths.percentiles_of(sample.lengths),
        length_by_outcome=lengths.by_outcome(sample.rewards, sample.lengths, PASS_THRESHOLD * best),
        reward_range=_range(sample, best),
        mean_complete=_complete(sample, best) if any(sample.cut) else None,
        usable_without_easy=_without_easy(grouped, best, group_size, seed),
        form=form(found[0], found[1], sample.rewards, sample.cut, PASS_THRESHOLD * best) if found else None,
        floor=Floor("given", floor) if floor is not None else _floor(sample, parts, best, golds),
        outside=sum(r < -EPSILON for r in sample.rewards),
    )
    return decide(facts, Measured.of(sample, tasks, mean, signal, _deviation(tasks, sample, best), kept))


def _best(sample: Sample, given: float | None, weights: Mapping[str, float]) -> tuple[float, Basis]:
    """The highest reward there is; a reward above what the weights promise shows that scores exceed 1."""
    highest = max(sample.rewards, default=0.0)
    if given is not None and given > 0:
        return given, "given"
    stated = max(sample.stated, math.fsum(w for w in weights.values() if w > 0))
    best = highest_of(stated, highest)
    return best, "weights" if 0 < stated == best else "observed"


def _usable(signal: Interval | None, group_size: int) -> Usable:
    if signal is None:
        return Usable(None, None, None, group_size)
    return Usable(signal.value, signal.low, signal.high, group_size)


def outcomes(tasks: Sequence[Task], best: float) -> list[Outcomes]:
    """The rewards of every task as counted outcomes: each distinct reward one, or bins where there are many."""
    number: dict[float, int] = {}
    known: dict[float, int] = {}
    for task in tasks:
        for reward in task.rewards:
            if reward not in number:
                number[reward] = known.setdefault(round(reward / best, 6), len(known))
        if len(known) > _EXACT_OUTCOMES:
            return [_binned(t, best) for t in tasks]
    return [
        ((number[t.low], len(t.rewards)),) if t.low == t.high else _counted([number[r] for r in t.rewards])
        for t in tasks
    ]


def _binned(task: Task, best: float) -> Outcomes:
    """Continuous rewards as outcomes: what lies within half a bin of each other teaches nothing worth naming.

    Bins that are fixed would split rewards that are almost alike wherever they lie on an edge; a task's own start at
    its lowest reward.
    """
    if task.high - task.low < _BIN / 2 * best:
        return [(math.floor(task.mean / best / _BIN + 0.5), len(task.rewards))]
    return _counted([math.floor(r / best / _BIN + 0.5) for r in task.rewards])


def _counted(outcomes: list[int]) -> Outcomes:
    return list(Counter(outcomes).items())


def _zero_variance(grouped: Sequence[Task], best: float) -> float | None:
    return sum(t.high - t.low <= EPSILON * best for t in grouped) / len(grouped) if grouped else None


def _without_easy(grouped: Sequence[Task], best: float, group_size: int, seed: int) -> float | None:
    kept = [t for t in grouped if t.mean <= _EASY * best]
    if not kept or len(kept) == len(grouped):
        return None
    from prime_lab_mcp.lab.distribution.signal import Table, usable_share

    table = Table()
    for outcome in outcomes(kept, best):
        table.add(outcome)
    return usable_share(table, group_size)


def _perfect(sample: Sample, best: float) -> float | None:
    return sum(r >= (1 - EPSILON) * best for r in sample.rewards) / sample.scored if sample.scored else None


def _complete(sample: Sample, best: float) -> float | None:
    whole = [r for r, cut in zip(sample.rewards, sample.cut, strict=True) if not cut]
    return math.fsum(whole) / len(whole) / best if whole else None


def _range(sample: Sample, best: float) -> tuple[float, float] | None:
    if not sample.scored:
        return None
    ordered = sorted(sample.rewards)
    last = len(ordered) - 1
    return ordered[math.floor(0.01 * last)] / best, ordered[math.ceil(0.99 * last)] / best


def _deviation(tasks: Sequence[Task], sample: Sample, best: float) -> Interval:
    """The standard deviation of reward / attainable, its interval from the spread of squared deviations over tasks."""
    if not tasks:
        return Interval(0.0, 0.0, 1.0)
    grand = math.fsum(t.mean * len(t.rewards) for t in tasks) / sample.scored
    squares = array("d", [(t.variation / len(t.rewards) + (t.mean - grand) ** 2) / best**2 for t in tasks])
    variance = spread(squares)
    if max(squares) - min(squares) < 1e-12:
        # Nothing varied in N rollouts: less than 3 / N of them would have.
        variance = Interval(variance.value, variance.value - 3 / sample.scored, variance.value + 3 / sample.scored)
    return Interval(*(math.sqrt(max(0.0, v)) for v in (variance.value, variance.low, variance.high)))


def _floor(sample: Sample, parts: Sequence[Component], best: float, golds: Mapping[str, str] | None) -> Floor | None:
    named = sample.form
    paid = next((c.weight for c in parts if named and c.name == named[0]), None)
    return floor_of(paid, best, golds)
