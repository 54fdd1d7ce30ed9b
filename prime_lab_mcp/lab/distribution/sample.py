"""Collects rollouts for judging in one pass: numeric columns, one entry per rollout, grouped by task.

The columns of a million rollouts take some 50 MB. The difficulty pools are those of prime-rl, by the mean reward of a
task (DifficultyPoolSamplerConfig of prime-rl 559b4477, 21 August 2026). Tasks with a mean of exactly 0 or exactly 1 are
counted separately: prime-rl draws them too, but they teach nothing.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from prime_lab_mcp.lab.base.statistics import Interval, clustered_interval
from prime_lab_mcp.lab.rollouts.components import judges_answer, measures_form, pays_for_form
from prime_lab_mcp.lab.rollouts.rollout import Rollout

EPSILON = 1e-6


def attainable_reward(stated: float, highest: float) -> float:
    """Return the highest attainable reward, from the sum of positive weights (0 where unknown) and the highest reward.

    A reward above the sum of weights shows that scores exceed 1. Without weights the result is at least 1.
    """
    if stated >= highest - EPSILON and stated > 0:
        return stated
    return max(highest, 1.0) if stated == 0 else highest


Curriculum = Literal["gate", "pools", "both"]


class DifficultyPool(NamedTuple):
    """A pool of tasks with a mean up to `threshold`; `weight` is the relative frequency of draws from the pool."""

    threshold: float
    weight: float


POOLS = {"hard": DifficultyPool(0.25, 0.2), "normal": DifficultyPool(0.75, 1.0), "easy": DifficultyPool(1.0, 0.2)}
"""The default pools of prime-rl, easiest last."""
POOL_NAMES = ("never", "hard", "normal", "easy", "always")
CURRICULUM_BELOW = 0.6
"""Usable share of groups below which resampling the other groups pays (our judgement)."""


def pool_of(mean: float, highest: float) -> str:
    """Return the pool of a task by its mean and highest reward, both as shares of the attainable reward."""
    if highest <= EPSILON:
        return "never"
    if mean >= 1 - EPSILON:
        return "always"
    return next(name for name, pool in POOLS.items() if mean <= pool.threshold)


def suggested_curriculum(usable: float, solved: int, unsolved: int) -> Curriculum | None:
    """Suggest a curriculum for a usable share and the numbers of tasks that are too easy and too hard."""
    gate, pools = usable < CURRICULUM_BELOW, bool(solved and unsolved)
    return "both" if gate and pools else "gate" if gate else "pools" if pools else None


@dataclass(slots=True)
class RolloutSample:
    """All columns of a set of rollouts. Rewards are unscaled, as the environment returned them."""

    index: dict[str, int] = field(default_factory=dict)
    """The number of every task."""
    rollouts: int = 0
    errors: int = 0
    nonfinite: int = 0
    truncated: int = 0
    prompts: array[float] = field(default_factory=lambda: array("f"))
    """Prompt tokens of every scored rollout."""
    weights: dict[str, float | None] = field(default_factory=dict)
    stated: float = 0.0
    """The largest sum of positive weights that a rollout states."""
    # One entry per scored rollout:
    task: array[int] = field(default_factory=lambda: array("l"))
    rewards: array[float] = field(default_factory=lambda: array("d"))
    lengths: array[float] = field(default_factory=lambda: array("f"))
    cut: array[int] = field(default_factory=lambda: array("b"))
    called: array[int] = field(default_factory=lambda: array("b"))
    """1 where the model called a tool, 0 where it was offered tools and called none, -1 where that is not known."""
    scores: dict[str, array[float]] = field(default_factory=dict)
    """Scores by component, NaN where a rollout has none; shorter where the last rollouts have none."""
    form_metric: array[float] = field(default_factory=lambda: array("d"))
    """A metric that tells whether the format was followed, for environments that do not reward the format."""
    form_name: str | None = None
    answers: array[float] = field(default_factory=lambda: array("d"))
    """What each rollout earned for its answer, NaN without components; shorter where the last ones have none."""
    answer_stated: float = 0.0
    """The largest sum of positive weights of components that judge the answer."""

    @property
    def told_apart(self) -> bool:
        """Whether the reward for the answer is known apart from the reward for form, length or style."""
        if any(weight is None for weight in self.weights.values()):
            return False
        paid = [name for name, weight in self.weights.items() if weight]
        judging = [judges_answer(name) for name in paid]
        return any(judging) and not all(judging) and any((self.weights[n] or 0) > 0 for n in paid if judges_answer(n))

    @property
    def style_names(self) -> tuple[str, ...]:
        """The weighted components that judge form, length or style."""
        return tuple(name for name, weight in self.weights.items() if weight and not judges_answer(name))

    def solved(self, best: float) -> array[int]:
        """Return 1 for every scored rollout that has half of the attainable reward, some of it for its answer."""
        least = PASS_THRESHOLD * best
        if not self.told_apart:
            return array("b", [reward >= least for reward in self.rewards])
        earned = array("d", self.answers)
        earned.extend([math.nan] * (len(self.rewards) - len(earned)))
        return array("b", [r >= least and not e <= EPSILON for r, e in zip(self.rewards, earned, strict=True)])

    @property
    def completed(self) -> int:
        return self.rollouts - self.errors

    @property
    def scored(self) -> int:
        return len(self.rewards)

    @property
    def form(self) -> tuple[str, array[float]] | None:
        """The component that rewards the format, by name and never as the only one; otherwise a metric of the
        format.
        """
        if len(self.scores) > 1:
            for name, column in self.scores.items():
                if pays_for_form(name, self.weights[name]):
                    return name, column
        if self.form_name is None or self.form_name in self.scores:
            return None
        return self.form_name, self.form_metric


def collect_sample(rollouts: Iterable[Rollout], weights: Mapping[str, float]) -> RolloutSample:
    """Collect rollouts. Failed rollouts are only counted, because an error is not a wrong answer."""
    sample = RolloutSample()
    index = sample.index
    for rollout in rollouts:
        sample.rollouts += 1
        number = index.setdefault(rollout.task, len(index))
        if rollout.error is not None:
            sample.errors += 1
            continue
        sample.truncated += rollout.truncated
        if rollout.reward is None or rollout.nonfinite:
            sample.nonfinite += 1
            continue
        sample.task.append(number)
        sample.rewards.append(rollout.reward)
        sample.lengths.append(rollout.completion_tokens)
        sample.prompts.append(rollout.prompt_tokens)
        sample.cut.append(rollout.truncated)
        sample.called.append(-1 if rollout.called_tool is None else rollout.called_tool)
        if rollout.components:
            _scores(sample, rollout, weights)
        if rollout.metrics:
            _metrics(sample, rollout)
    return sample


def _scores(sample: RolloutSample, rollout: Rollout, weights: Mapping[str, float]) -> None:
    stated = answer_stated = answer = 0.0
    row = len(sample.rewards) - 1
    columns = sample.scores
    for name, (score, weight) in rollout.components.items():
        if weight is None:
            weight = weights.get(name)
            if weight is None and weights:
                continue  # v0 lists metrics of weight nothing among its reward functions
        if weight is not None and weight > 0:
            stated += weight
        if weight and judges_answer(name):
            answer += weight * score
            answer_stated += max(0.0, weight)
        sample.weights[name] = weight
        column = columns.get(name)
        if column is None:
            column = columns[name] = array("d")
        if (missing := row - len(column)) > 0:
            column.extend([math.nan] * missing)
        column.append(score)
    if stated > sample.stated:
        sample.stated = stated
    if answer_stated > sample.answer_stated:
        sample.answer_stated = answer_stated
    if (missing := row - len(sample.answers)) > 0:
        sample.answers.extend([math.nan] * missing)
    sample.answers.append(answer)


def _metrics(sample: RolloutSample, rollout: Rollout) -> None:
    if sample.form_name is None:
        sample.form_name = next((n for n in rollout.metrics if measures_form(n)), None)
        if sample.form_name is None:
            return
    row = len(sample.rewards) - 1
    score = rollout.metrics.get(sample.form_name)
    if score is not None:
        if len(sample.form_metric) < row:
            sample.form_metric.extend([math.nan] * (row - len(sample.form_metric)))
        sample.form_metric.append(score)


def rows_by_task(sample: RolloutSample) -> Iterator[array[int]]:
    """Yield the rows of each task that has any, in order of first appearance (a counting sort)."""
    starts = array("l", [0]) * (len(sample.index) + 1)
    for number in sample.task:
        starts[number + 1] += 1
    for number in range(len(sample.index)):
        starts[number + 1] += starts[number]
    places, rows = array("l", starts), array("l", [0]) * len(sample.task)
    for row, number in enumerate(sample.task):
        rows[places[number]] = row
        places[number] += 1
    for number in range(len(sample.index)):
        if starts[number] < starts[number + 1]:
            yield rows[starts[number] : starts[number + 1]]


PASS_THRESHOLD = 0.5
"""Share of the attainable reward from which a rollout counts as solved."""
_KS = (1, 2, 4, 8, 16, 32)


@dataclass(slots=True)
class TaskRewards:
    """The scored rollouts of one task. Rewards and their statistics are unscaled."""

    rewards: array[float]
    rows: array[int]
    mean: float
    variation: float
    """Sum of squared deviations from the task's mean."""
    low: float
    high: float


def tasks_of(sample: RolloutSample) -> list[TaskRewards]:
    """Group the scored rollouts of a sample by task."""
    return _tasks(sample, sample.rewards)


def answers_of(sample: RolloutSample) -> list[TaskRewards]:
    """Group what the rollouts earned for their answers by task; rollouts that have no such component are left out."""
    return _tasks(sample, sample.answers)


def _tasks(sample: RolloutSample, every: array[float]) -> list[TaskRewards]:
    tasks = []
    known = len(every)
    for task_rows in rows_by_task(sample):
        rows = task_rows
        if every is not sample.rewards:
            rows = array("l", [row for row in task_rows if row < known and every[row] == every[row]])
            if not rows:
                continue
        rewards = array("d", [every[row] for row in rows])
        low, high = min(rewards), max(rewards)
        if low == high:
            mean, variation = low, 0.0
        else:
            mean = math.fsum(rewards) / len(rewards)
            variation = math.fsum([(r - mean) ** 2 for r in rewards])
        tasks.append(TaskRewards(rewards, rows, mean, variation, low, high))
    return tasks


def pool_counts(sample: RolloutSample, tasks: Sequence[TaskRewards], best: float) -> dict[str, int]:
    """Count the tasks in each of prime-rl's pools; tasks that are never or always solved are separate."""
    pools = dict.fromkeys(POOL_NAMES, 0)
    for task in tasks:
        pools[pool_of(task.mean / best, highest_answer(sample, task) / best)] += 1
    return pools


def highest_answer(sample: RolloutSample, task: TaskRewards) -> float:
    """Return the most that a rollout of this task earned: for its answer, where that is known apart."""
    if not sample.told_apart:
        return task.high
    known = [e for row in task.rows if row < len(sample.answers) and (e := sample.answers[row]) == e]
    return max(known, default=task.high)


def pass_at_k(tasks: Sequence[TaskRewards], solved: Sequence[int]) -> dict[int, Interval]:
    """Return the unbiased estimate of Chen et al. 2021 with its interval, over tasks with at least k rollouts.

    `solved` has one entry per scored rollout. Each task counts as n // k independent draws of k rollouts.
    """
    counts = [(len(t.rows), sum(solved[row] for row in t.rows)) for t in tasks]
    estimates: dict[int, Interval] = {}
    for k in _KS:
        enough = [c for c in counts if c[0] >= k]
        if len(enough) * 2 > len(counts):
            hit = [1 - math.comb(n - passed, k) / math.comb(n, k) for n, passed in enough]
            estimates[k], _ = clustered_interval(hit, sum(n // k for n, _ in enough))
    return estimates


def mean_task_std(tasks: Sequence[TaskRewards], best: float) -> float | None:
    """Return the standard deviation of reward / attainable over all rollouts."""
    n = sum(len(t.rewards) for t in tasks)
    if n < 2:
        return None
    grand = math.fsum(t.mean * len(t.rewards) for t in tasks) / n
    variation = math.fsum(t.variation + len(t.rewards) * (t.mean - grand) ** 2 for t in tasks)
    return math.sqrt(variation / (n - 1)) / best


def signal_fraction(tasks: Sequence[TaskRewards]) -> float | None:
    """Return 1 - ICC(1) of a one-way layout, clipped to [0, 1]; None without variance or without repeats."""
    n, groups = sum(len(t.rewards) for t in tasks), len(tasks)
    if groups < 2 or n <= groups:
        return None
    grand = math.fsum(t.mean * len(t.rewards) for t in tasks) / n
    within = math.fsum(t.variation for t in tasks) / (n - groups)
    between = math.fsum(len(t.rewards) * (t.mean - grand) ** 2 for t in tasks) / (groups - 1)
    size = (n - sum(len(t.rewards) ** 2 for t in tasks) / n) / (groups - 1)
    of_tasks = max(0.0, (between - within) / size)
    return within / (within + of_tasks) if within + of_tasks > 1e-15 else None


def learnability(grouped: Sequence[TaskRewards], best: float) -> float | None:
    """Return the mean unbiased variance inside a task: p (1 - p) for a reward of 0 or 1."""
    if not grouped:
        return None
    return math.fsum(t.variation / (len(t.rewards) - 1) for t in grouped) / len(grouped) / best**2
