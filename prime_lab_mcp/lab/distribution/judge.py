"""Judges a set of rollouts: one pass to collect, then estimates, then the decision table (`decide`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.distribution.attainable import EPSILON, attainable
from prime_lab_mcp.lab.distribution.collect import Sample, Task, collect
from prime_lab_mcp.lab.distribution.decide import decide
from prime_lab_mcp.lab.distribution.intervals import Interval, clustered
from prime_lab_mcp.lab.distribution.signal import Outcomes, usable
from prime_lab_mcp.lab.distribution.summary import Basis, Component, Distribution, Usable
from prime_lab_mcp.lab.evals.results import Rollout

PASS_THRESHOLD = 0.5
"""Reward / attainable from which on a rollout counts as solved."""
_EXACT_OUTCOMES = 12
"""Up to this many distinct rewards each is an outcome of its own; beyond, rewards are continuous and binned."""
_BIN = 0.05
_KS = (1, 2, 4, 8, 16, 32)


def judge(
    rollouts: Iterable[Rollout],
    *,
    group_size: int = 16,
    attainable: float | None = None,
    weights: Mapping[str, float] | None = None,
    floor: float | None = None,
    seed: int = 0,
) -> Distribution:
    """Whether training on what these rollouts come from would teach anything. Deterministic for the same rollouts.

    `weights` are those of an environment whose results do not repeat them (v0). `floor` is what a trivial policy gets,
    as reward / attainable.
    """
    known = dict(weights or {})
    sample = collect(rollouts, known)
    best, basis = _best(sample, attainable, known)
    tasks = list(sample.tasks.values())
    grouped = [t for t in tasks if len(t.rewards) > 1]
    mean, error = clustered([t.mean / best for t in tasks], sample.scored)
    signal = usable(outcomes(grouped, best), group_size, seed) if grouped else None
    solved = [_Solved.of(t, best) for t in tasks]
    facts = Distribution(
        status="passed",
        findings=(),
        tasks=len(sample.seen),
        rollouts=sample.rollouts,
        scored=sample.scored,
        errors=sample.errors,
        attainable=best,
        attainable_from=basis,
        mean=mean.value if tasks else None,
        mean_low=mean.low if tasks else None,
        mean_high=mean.high if tasks else None,
        standard_error=error if tasks else None,
        std=_std(tasks, best),
        checks=(),
        usable_groups=_usable(signal, group_size),
        zero_variance_share=_share(max(t.rewards) - min(t.rewards) <= EPSILON * best for t in grouped),
        signal_fraction=_signal_fraction(tasks),
        pass_at_k=_pass_at_k(solved),
        pass_threshold=PASS_THRESHOLD,
        pass_rate=sum(s.passed for s in solved) / sample.scored if sample.scored else None,
        perfect_rate=sum(s.perfect for s in solved) / sample.scored if sample.scored else None,
        difficulty=_difficulty(tasks, best),
        error_rate=sample.errors / sample.rollouts if sample.rollouts else 0.0,
        truncation_rate=sample.truncated / sample.completed if sample.completed else 0.0,
        length_correlation=_length_correlation(grouped),
        components=_components(sample, grouped),
        learnability=_learnability(grouped, best),
        prompt_tokens=_tokens(sample.prompts),
        completion_tokens=_tokens([length for t in tasks for length in t.lengths]),
    )
    return decide(facts, sample, mean, signal, floor)


def _best(sample: Sample, given: float | None, weights: Mapping[str, float]) -> tuple[float, Basis]:
    """The highest reward there is; a reward above what the weights promise shows that scores exceed 1."""
    highest = max((max(t.rewards) for t in sample.tasks.values()), default=0.0)
    if given is not None and given > 0:
        return given, "given"
    stated = max(sample.stated, math.fsum(w for w in weights.values() if w > 0))
    best = attainable(stated, highest)
    return best, "weights" if 0 < stated == best else "observed"


def _usable(signal: Interval | None, group_size: int) -> Usable:
    if signal is None:
        return Usable(None, None, None, group_size)
    return Usable(signal.value, signal.low, signal.high, group_size)


def outcomes(tasks: Sequence[Task], best: float) -> list[Outcomes]:
    """The rewards of every task as counted outcomes: each distinct reward one, or bins where there are many."""
    distinct: set[float] = set()
    for task in tasks:
        distinct.update(round(r / best, 6) for r in task.rewards)
        if len(distinct) > _EXACT_OUTCOMES:
            return [_counted([math.floor(r / best / _BIN + 0.5) for r in t.rewards]) for t in tasks]
    number = {value: i for i, value in enumerate(sorted(distinct))}
    return [_counted([number[round(r / best, 6)] for r in t.rewards]) for t in tasks]


def _counted(outcomes: list[int]) -> Outcomes:
    return list(Counter(outcomes).items())


@dataclass(frozen=True, slots=True)
class _Solved:
    rollouts: int
    passed: int
    perfect: int

    @classmethod
    def of(cls, task: Task, best: float) -> _Solved:
        passed = sum(r >= PASS_THRESHOLD * best for r in task.rewards)
        perfect = sum(r >= (1 - EPSILON) * best for r in task.rewards)
        return cls(len(task.rewards), passed, perfect)


def _pass_at_k(solved: Sequence[_Solved]) -> dict[int, float]:
    """The unbiased estimate of Chen et al. 2021, over tasks with at least k rollouts."""
    found: dict[int, float] = {}
    for k in _KS:
        enough = [s for s in solved if s.rollouts >= k]
        if len(enough) * 2 > len(solved):
            missed = [math.comb(s.rollouts - s.passed, k) / math.comb(s.rollouts, k) for s in enough]
            found[k] = 1 - math.fsum(missed) / len(missed)
    return found


def _difficulty(tasks: Sequence[Task], best: float) -> dict[str, int]:
    """prime-rl's pools by task mean (hard to 0.25, normal to 0.75, easy), with exact 0 and exact 1 apart."""
    pools = dict.fromkeys(("never", "hard", "normal", "easy", "always"), 0)
    for task in tasks:
        mean = task.mean / best
        if max(task.rewards) <= EPSILON * best:
            pools["never"] += 1
        elif mean >= 1 - EPSILON:
            pools["always"] += 1
        else:
            pools["hard" if mean <= 0.25 else "normal" if mean <= 0.75 else "easy"] += 1
    return pools


def _std(tasks: Sequence[Task], best: float) -> float | None:
    n = sum(len(t.rewards) for t in tasks)
    if n < 2:
        return None
    mean = math.fsum(math.fsum(t.rewards) for t in tasks) / n
    return math.sqrt(math.fsum((r - mean) ** 2 for t in tasks for r in t.rewards) / (n - 1)) / best


def _signal_fraction(tasks: Sequence[Task]) -> float | None:
    """1 - ICC(1) of a one-way layout, kept in [0, 1]; None without variance or without repeats."""
    n, groups = sum(len(t.rewards) for t in tasks), len(tasks)
    if groups < 2 or n <= groups:
        return None
    grand = math.fsum(math.fsum(t.rewards) for t in tasks) / n
    within = math.fsum(t.variation for t in tasks) / (n - groups)
    between = math.fsum(len(t.rewards) * (t.mean - grand) ** 2 for t in tasks) / (groups - 1)
    size = (n - sum(len(t.rewards) ** 2 for t in tasks) / n) / (groups - 1)
    of_tasks = max(0.0, (between - within) / size)
    return within / (within + of_tasks) if within + of_tasks > 0 else None


def _length_correlation(tasks: Sequence[Task]) -> float | None:
    """Pearson correlation of reward and completion tokens, both less their task's mean."""
    crossed = lengths = rewards = 0.0
    for task in tasks:
        mean_length, mean_reward = math.fsum(task.lengths) / len(task.lengths), task.mean
        for length, reward in zip(task.lengths, task.rewards, strict=True):
            crossed += (length - mean_length) * (reward - mean_reward)
            lengths += (length - mean_length) ** 2
            rewards += (reward - mean_reward) ** 2
    return crossed / math.sqrt(lengths * rewards) if lengths > 1e-12 and rewards > 1e-12 else None


def _components(sample: Sample, grouped: Sequence[Task]) -> tuple[Component, ...]:
    whole = math.fsum(t.variation for t in grouped)
    found = []
    for name, weight in sample.weights.items():
        parts = [t.parts[name] for t in sample.tasks.values() if name in t.parts]
        n = sum(p.n for p in parts)
        covaried = math.fsum(t.parts[name].covariation for t in grouped if name in t.parts)
        share = weight * covaried / whole if weight is not None and whole > 1e-12 else None
        found.append(Component(name, weight, math.fsum(p.scores for p in parts) / n, share))
    return tuple(found)


def _learnability(grouped: Sequence[Task], best: float) -> float | None:
    if not grouped:
        return None
    return math.fsum(t.variation / (len(t.rewards) - 1) for t in grouped) / len(grouped) / best**2


def _tokens(counts: Sequence[float]) -> dict[str, int]:
    ordered = sorted(c for c in counts if c > 0)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {f"p{p}": int(ordered[math.ceil(p / 100 * last)]) for p in (50, 95, 99)} | {"max": int(ordered[-1])}


def _share(flags: Iterable[bool]) -> float | None:
    listed = list(flags)
    return sum(listed) / len(listed) if listed else None
