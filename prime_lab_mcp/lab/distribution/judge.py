"""Judges a set of rollouts: collects them in one pass, computes statistics, and applies the decision table of
`rules`."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.statistics import Interval, clustered_interval, score_interval, student_interval
from prime_lab_mcp.lab.distribution import lengths
from prime_lab_mcp.lab.distribution.floor import FrequentAnswer, TrivialFloor, trivial_floor
from prime_lab_mcp.lab.distribution.sample import (
    EPSILON,
    PASS_THRESHOLD,
    RolloutSample,
    TaskRewards,
    answers_of,
    attainable_reward,
    collect_sample,
    learnability,
    mean_task_std,
    pass_at_k,
    pool_counts,
    signal_fraction,
    tasks_of,
)
from prime_lab_mcp.lab.distribution.signal import Outcomes, OutcomeTable, usable_interval, usable_share
from prime_lab_mcp.lab.distribution.summary import (
    AnswerSummary,
    Basis,
    ComponentSummary,
    Distribution,
    Estimates,
    ToolUse,
    UsableGroups,
    was_cut_early,
)
from prime_lab_mcp.lab.distribution.verdict import decide_verdict
from prime_lab_mcp.lab.rollouts.components import form_statistics
from prime_lab_mcp.lab.rollouts.rollout import Rollout


def component_summaries(sample: RolloutSample, grouped: Sequence[TaskRewards]) -> tuple[ComponentSummary, ...]:
    """Summarise every component of the reward: its scores, and its share of the reward's variance inside tasks.

    `grouped` are the tasks with at least two rollouts.
    """
    total_variation = math.fsum(t.variation for t in grouped)
    return tuple(_component(sample, name, grouped, total_variation) for name in sample.scores)


def _component(
    sample: RolloutSample, name: str, grouped: Sequence[TaskRewards], total_variation: float
) -> ComponentSummary:
    """Summarise one component. `total_variation` is the sum of squared deviations of the rewards inside tasks."""
    column, weight = sample.scores[name], sample.weights[name]
    scores = [s for s in column if s == s]
    n = len(scores)
    low, high = min(scores), max(scores)
    mean = math.fsum(scores) / n
    best = max(1.0, high)
    crossed, inner, free = _inside(column, sample.rewards, grouped) if low < high else (0.0, 0.0, 1)
    return ComponentSummary(
        name,
        weight,
        mean,
        weight * crossed / total_variation if weight is not None and total_variation > 1e-12 else None,
        std=math.sqrt(math.fsum([(s - mean) ** 2 for s in scores]) / n) if low < high else 0.0,
        within_task_std=math.sqrt(inner / free) if grouped and free else None,
        at_best=sum(s >= best - EPSILON for s in scores) / n,
        outside=sum(not -EPSILON <= s <= 1 + EPSILON for s in scores) if low < -EPSILON or high > 1 + EPSILON else 0,
    )


def _inside(column: array[float], rewards: array[float], grouped: Sequence[TaskRewards]) -> tuple[float, float, int]:
    """Return three sums over tasks: the covariation of score and reward, the squared deviations of the score, and the
    degrees of freedom."""
    crossed = squared = 0.0
    free, last = 0, len(column)
    whole = last == len(rewards)
    for task in grouped:
        rows: Sequence[int] = task.rows if whole else [r for r in task.rows if r < last]
        scores = [column[r] for r in rows]
        total = math.fsum(scores)
        if total != total:
            rows = [r for r in rows if column[r] == column[r]]
            scores = [column[r] for r in rows]
            total = math.fsum(scores)
        if len(scores) < 2:
            continue
        free += len(scores) - 1
        if min(scores) == max(scores):
            continue
        mean = total / len(scores)
        paid = [rewards[r] for r in rows] if len(rows) < len(task.rewards) else task.rewards
        crossed += math.fsum([(s - mean) * p for s, p in zip(scores, paid, strict=True)])
        squared += math.fsum([(s - mean) ** 2 for s in scores])
    return crossed, squared, free


def means_by_task(column: Sequence[float], tasks: Sequence[TaskRewards]) -> tuple[list[float], int]:
    """Return the mean score of every task that has scores, and the total number of scores."""
    means, n = [], 0
    rollouts = sum(len(task.rows) for task in tasks)
    if len(column) == rollouts and not math.isnan(sum(column)):
        return [math.fsum(map(column.__getitem__, t.rows)) / len(t.rows) for t in tasks], rollouts
    for task in tasks:
        scores = [s for r in task.rows if r < len(column) and (s := column[r]) == s]
        if scores:
            means.append(math.fsum(scores) / len(scores))
            n += len(scores)
    return means, n


_EXACT_OUTCOMES = 12
"""Largest number of distinct rewards that are separate outcomes. More rewards count as continuous and are binned."""
_BIN = 0.05
_EASY = 0.9


def judge_rollouts(
    rollouts: Iterable[Rollout],
    *,
    group_size: int = 16,
    attainable: float | None = None,
    weights: Mapping[str, float] | None = None,
    floor: float | None = None,
    golds: Mapping[str, str] | None = None,
    frequent: FrequentAnswer | None = None,
    available: int | None = None,
    max_tokens: int | None = None,
    seed: int = 0,
    slow: bool = False,
) -> Distribution:
    """Judge whether training on the tasks and rewards of these rollouts would teach a model anything.

    A group is usable if it has two different rewards. If the components separate the answer from form, length and
    style, only the rewards for the answer count. Equal arguments give equal results.

    `group_size` is the number of rollouts in a training group. `attainable` is the highest attainable reward; without
    it the weights or the observed rewards determine it. `weights` maps components to weights, for environments whose
    results do not store them (v0). `floor` is the reward of a trivial policy as a share of the attainable reward;
    without it the rollouts, `golds` (task to reference answer) and `frequent` (the most frequent answer of all tasks of
    the environment, None if unknown) determine it. `available` is the number of tasks of
    the environment, which advice never exceeds; None if the number is unknown or unlimited. `max_tokens` is the token
    limit of one completion; None if it is unknown. `slow` says that each rollout starts a container.
    """
    weight_by_name = dict(weights or {})
    sample = collect_sample(rollouts, weight_by_name)
    best, basis = _best(sample, attainable, weight_by_name)
    tasks = tasks_of(sample)
    grouped = [t for t in tasks if len(t.rewards) > 1]
    complete = available is not None and len(tasks) >= available
    mean, error = clustered_interval([t.mean / best for t in tasks], sample.scored)
    answers = _answers(sample, tasks)
    judged, judged_best = (answers.grouped, answers.best) if answers is not None else (grouped, best)
    every = usable_interval(task_outcomes(grouped, best), group_size, seed) if grouped else None
    signal = every
    if answers is not None:
        signal = usable_interval(task_outcomes(judged, judged_best), group_size, seed) if judged else None
    solved = sample.solved(best)
    passes = pass_at_k(tasks, solved)
    parts = component_summaries(sample, grouped)
    form, form_interval = sample.form, None
    if form is not None:
        form_interval, _ = clustered_interval(*means_by_task(form[1], tasks))
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
        std=mean_task_std(tasks, best),
        checks=(),
        usable_groups=_usable(signal, every, group_size),
        zero_variance_share=_zero_variance(grouped, best),
        signal_fraction=signal_fraction(answers.tasks if answers is not None else tasks),
        pass_at_k={k: passed.value for k, passed in passes.items()},
        pass_at_k_intervals=passes,
        pass_threshold=PASS_THRESHOLD,
        pass_rate=sum(solved) / sample.scored if sample.scored else None,
        perfect_rate=_perfect(sample, best),
        difficulty=pool_counts(sample, tasks, best),
        error_rate=sample.errors / sample.rollouts if sample.rollouts else 0.0,
        truncation_rate=sample.truncated / sample.completed if sample.completed else 0.0,
        length_correlation=lengths.length_correlation(grouped, sample.reply_lengths, sample.called),
        components=parts,
        learnability=learnability(judged, judged_best),
        prompt_tokens=lengths.length_percentiles(sample.prompts),
        completion_tokens=lengths.length_percentiles(sample.lengths),
        length_by_outcome=lengths.mean_lengths_by_outcome(solved, sample.reply_lengths),
        reward_range=_range(sample, best),
        mean_complete=_complete(sample, best) if any(sample.cut) else None,
        usable_without_easy=_without_easy(judged, judged_best, group_size),
        form=form_statistics(form[0], form[1], solved, sample.cut) if form else None,
        floor=TrivialFloor("given", floor, floor)
        if floor is not None
        else _floor(sample, parts, best, golds, frequent, complete=complete),
        outside=sum(r < -EPSILON for r in sample.rewards),
        answer=answers.summary if answers is not None else None,
        tool_use=_tool_use(sample.called, solved),
        available=available,
        cut_early=was_cut_early(sample.longest_cut, max_tokens),
        traces=sample.traces or None,
        slow=slow,
    )
    if complete:
        mean = _of_these_tasks(mean, sample.scored, len(tasks))
    answer = answers.summary.mean if answers is not None else None
    if complete and answers is not None and answer is not None:
        answer = _of_these_tasks(answer, answers.summary.scored, len(answers.tasks))
    return decide_verdict(
        facts, Estimates.of(sample, tasks, mean, answer, signal, _deviation(tasks, sample, best), form_interval)
    )


@dataclass(frozen=True, slots=True)
class _Answers:
    """The rewards for the answers alone, without those for form, length and style.

    `tasks` are all tasks with such rewards, `grouped` those with at least two rollouts. `best` is the highest
    attainable reward for the answer.
    """

    tasks: list[TaskRewards]
    grouped: list[TaskRewards]
    best: float
    summary: AnswerSummary


def _answers(sample: RolloutSample, every: Sequence[TaskRewards]) -> _Answers | None:
    """Return the rewards for the answers; None if the components do not separate the answer from form and style."""
    if not sample.separates_answer:
        return None
    tasks = answers_of(sample, every)
    highest = max((t.high for t in tasks), default=0.0)
    best = attainable_reward(sample.answer_stated, highest)
    scored = sum(len(t.rewards) for t in tasks)
    mean, _ = clustered_interval([t.mean / best for t in tasks], scored)
    paid = sum(r > EPSILON for t in tasks for r in t.rewards)
    grouped = [t for t in tasks if len(t.rewards) > 1]
    return _Answers(tasks, grouped, best, AnswerSummary(mean, paid, scored, sample.style_names))


def _of_these_tasks(mean: Interval, rollouts: int, tasks: int) -> Interval:
    """Return the interval of the mean over exactly the evaluated tasks, which are all that the environment has.

    Training draws these tasks and no others, so that the choice of tasks adds no uncertainty to the verdict on them.
    What an evaluation shows of a model is not limited to them: the reported interval is the clustered one.
    """
    if tasks < 2 or mean.low < 0.0 or mean.high > 1.0:
        return mean
    within = score_interval(mean.value, rollouts)
    return Interval(mean.value, max(mean.low, within.low), min(mean.high, within.high))


def _best(sample: RolloutSample, given: float | None, weights: Mapping[str, float]) -> tuple[float, Basis]:
    """Return the highest attainable reward and its source: given, the sum of weights, or the highest observed reward.

    An observed reward above the sum of weights replaces this sum, because it proves that scores exceed 1.
    """
    highest = max(sample.rewards, default=0.0)
    if given is not None and given > 0:
        return given, "given"
    stated = max(sample.stated, math.fsum(w for w in weights.values() if w > 0))
    best = attainable_reward(stated, highest)
    return best, "weights" if 0 < stated == best else "observed"


def _usable(signal: Interval | None, every: Interval | None, group_size: int) -> UsableGroups:
    """Return the share of usable groups. `signal` counts rewards for answers, `every` the whole rewards."""
    if signal is None:
        return UsableGroups(None, None, None, group_size)
    form_only = max(0.0, every.value - signal.value) if every is not None and every is not signal else None
    return UsableGroups(signal.value, signal.low, signal.high, group_size, form_only)


def task_outcomes(tasks: Sequence[TaskRewards], best: float) -> list[Outcomes]:
    """Count the outcomes of every task. An outcome is a distinct reward, or a bin if there are many distinct
    rewards."""
    number: dict[float, int] = {}
    outcome_of: dict[float, int] = {}
    for task in tasks:
        for reward in task.rewards if task.low != task.high else (task.low,):
            if reward not in number:
                number[reward] = outcome_of.setdefault(round(reward / best, 6), len(outcome_of))
        if len(outcome_of) > _EXACT_OUTCOMES:
            return [_binned(t, best) for t in tasks]
    return [
        ((number[t.low], len(t.rewards)),) if t.low == t.high else _counted([number[r] for r in t.rewards])
        for t in tasks
    ]


def _binned(task: TaskRewards, best: float) -> Outcomes:
    """Count continuous rewards in bins of width `_BIN`.

    A task whose rewards all lie within half a bin has one outcome: such small differences teach too little, and the
    edge of a bin could separate almost equal rewards.
    """
    if task.high - task.low < _BIN / 2 * best:
        return ((math.floor(task.mean / best / _BIN + 0.5), len(task.rewards)),)
    return _counted([math.floor(r / best / _BIN + 0.5) for r in task.rewards])


def _counted(outcomes: list[int]) -> Outcomes:
    times: dict[int, int] = {}  # a Counter takes three times as long for the few rollouts of a task
    for outcome in outcomes:
        times[outcome] = times.get(outcome, 0) + 1
    return tuple(times.items())


def _zero_variance(grouped: Sequence[TaskRewards], best: float) -> float | None:
    return sum(t.high - t.low <= EPSILON * best for t in grouped) / len(grouped) if grouped else None


def _without_easy(grouped: Sequence[TaskRewards], best: float, group_size: int) -> float | None:
    """Return the usable share without easy tasks; None if no task is easy or all tasks are."""
    harder = [t for t in grouped if t.mean <= _EASY * best]
    if not harder or len(harder) == len(grouped):
        return None
    table = OutcomeTable()
    table.add_all(task_outcomes(harder, best))
    return usable_share(table, group_size)


def _perfect(sample: RolloutSample, best: float) -> float | None:
    """Return the share of scored rollouts with the full attainable reward."""
    return sum(r >= (1 - EPSILON) * best for r in sample.rewards) / sample.scored if sample.scored else None


def _complete(sample: RolloutSample, best: float) -> float | None:
    """Return the mean reward / attainable of the rollouts that no limit cut off."""
    complete = [r for r, cut in zip(sample.rewards, sample.cut, strict=True) if not cut]
    return math.fsum(complete) / len(complete) / best if complete else None


def _tool_use(called: Sequence[int], solved: Sequence[int]) -> ToolUse | None:
    known = [(use, right) for use, right in zip(called, solved, strict=True) if use >= 0]
    if not known:
        return None
    without = [right for use, right in known if not use]
    return ToolUse(len(known), len(without), sum(right for _, right in known), sum(without))


def _range(sample: RolloutSample, best: float) -> tuple[float, float] | None:
    """Return the 1st and 99th percentile of reward / attainable."""
    if not sample.scored:
        return None
    ordered = sorted(sample.rewards)
    last = len(ordered) - 1
    return ordered[math.floor(0.01 * last)] / best, ordered[math.ceil(0.99 * last)] / best


def _deviation(tasks: Sequence[TaskRewards], sample: RolloutSample, best: float) -> Interval:
    """Return the standard deviation of reward / attainable with its interval.

    The interval comes from the mean squared deviation of each task.
    """
    if not tasks:
        return Interval(0.0, 0.0, 1.0)
    grand = math.fsum(t.mean * len(t.rewards) for t in tasks) / sample.scored
    squares = array("d", [(t.variation / len(t.rewards) + (t.mean - grand) ** 2) / best**2 for t in tasks])
    variance = student_interval(squares)
    if max(squares) - min(squares) < 1e-12:
        # All tasks deviate equally. The rule of three bounds an event that N rollouts did not show by 3 / N.
        variance = Interval(variance.value, variance.value - 3 / sample.scored, variance.value + 3 / sample.scored)
    return Interval(*(math.sqrt(max(0.0, v)) for v in (variance.value, variance.low, variance.high)))


def _floor(
    sample: RolloutSample,
    parts: Sequence[ComponentSummary],
    best: float,
    golds: Mapping[str, str] | None,
    frequent: FrequentAnswer | None,
    *,
    complete: bool,
) -> TrivialFloor | None:
    """Return the best trivial policy; the weight of the format component is the reward for the format alone."""
    form = sample.form
    weight = next((c.weight for c in parts if form and c.name == form[0]), None)
    return trivial_floor(weight, best, golds, frequent, complete=complete)
