"""Collects rollouts into numeric columns in one pass, and groups them by task.

The columns of a million rollouts take about 50 MB. The difficulty pools are those of prime-rl, which sorts tasks by
their mean reward (DifficultyPoolSamplerConfig of prime-rl 559b4477, 21 August 2026). Tasks without any reward and tasks
with the full mean reward are counted separately: prime-rl draws them too, but they teach nothing.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, Literal, NamedTuple

from prime_lab_mcp.lab.base.statistics import Interval, clustered_interval
from prime_lab_mcp.lab.rollouts.components import judges_answer, measures_form, pays_for_form
from prime_lab_mcp.lab.rollouts.rollout import Rollout

EPSILON = 1e-6
"""Rewards that differ by less are equal."""


def attainable_reward(stated: float, highest: float) -> float:
    """Return the highest attainable reward.

    `stated` is the sum of positive weights (0 if unknown), and `highest` the highest observed reward. An observed
    reward above the sum of weights counts, because it proves that scores exceed 1. Without weights the result is at
    least 1.
    """
    if stated >= highest - EPSILON and stated > 0:
        return stated
    return max(highest, 1.0) if stated == 0 else highest


Curriculum = Literal["gate", "pools", "both"]


class DifficultyPool(NamedTuple):
    """A pool of tasks with a mean reward up to `threshold`. `weight` is how often prime-rl draws from it,
    relatively."""

    threshold: float
    weight: float


POOLS = {"hard": DifficultyPool(0.25, 0.2), "normal": DifficultyPool(0.75, 1.0), "easy": DifficultyPool(1.0, 0.2)}
"""The default pools of prime-rl, from hard to easy."""
POOL_NAMES = ("never", "hard", "normal", "easy", "always")
CURRICULUM_BELOW = 0.6
"""Share of usable groups below which a curriculum that resamples unusable groups is suggested (our choice)."""


def pool_of(mean: float, highest: float) -> str:
    """Return the name of a task's pool, from its mean and highest reward as shares of the attainable reward.

    `never` is a task without any reward, `always` one with the full mean reward.
    """
    if highest <= EPSILON:
        return "never"
    if mean >= 1 - EPSILON:
        return "always"
    return next(name for name, pool in POOLS.items() if mean <= pool.threshold)


def easy_first(easiest: Mapping[str, Any] | None) -> str:
    """Return the advice, in the same words in every tool, on training on easy tasks before hard ones.

    `easiest` are the arguments of this environment that select its easiest tasks; None if it is known to have none. The
    gates apply separately to each set of environment arguments.
    """
    if not easiest:
        return (
            "Easy tasks first is a phase for each set of env_args. No argument of this environment is known to select "
            "easy tasks: to have one, give its taskset a field that filters the tasks by what makes them hard."
        )
    return (
        f"Easy tasks first is a phase for each set of env_args, here {json.dumps(dict(easiest), ensure_ascii=False)}: "
        "call test_reward, run_eval and write_training_config with the same env_args, then with those of the next "
        "phase. curriculum= only weighs the tasks of a phase."
    )


def suggested_curriculum(usable: float, solved: int, unsolved: int) -> Curriculum | None:
    """Suggest a curriculum: `gate` if few groups are usable, `pools` if some tasks are too easy and some too hard.

    `usable` is the share of usable groups. `solved` and `unsolved` are the numbers of tasks that are too easy and too
    hard. None if neither condition holds.
    """
    gate, pools = usable < CURRICULUM_BELOW, bool(solved and unsolved)
    return "both" if gate and pools else "gate" if gate else "pools" if pools else None


@dataclass(slots=True)
class RolloutSample:
    """A set of rollouts as columns of numbers. Rewards are unscaled, as the environment returned them."""

    index: dict[str, int] = field(default_factory=dict)
    """Maps the key of every task to its number, which the column `task` holds."""
    rollouts: int = 0
    errors: int = 0
    nonfinite: int = 0
    truncated: int = 0
    longest_cut: float = 0.0
    """Completion tokens of the longest truncated reply; 0 if there is none, or if no tokens are known."""
    prompts: array[float] = field(default_factory=lambda: array("f"))
    """Prompt tokens of every scored rollout."""
    weights: dict[str, float | None] = field(default_factory=dict)
    stated: float = 0.0
    """The largest sum of positive weights in one rollout."""
    # The following columns have one entry for each scored rollout.
    task: array[int] = field(default_factory=lambda: array("i"))
    rewards: array[float] = field(default_factory=lambda: array("d"))
    lengths: array[float] = field(default_factory=lambda: array("f"))
    reply_lengths: array[float] = field(default_factory=lambda: array("f"))
    """Mean completion tokens of a reply. Long rollouts thus do not count as long answers because of their turns."""
    cut: array[int] = field(default_factory=lambda: array("b"))
    called: array[int] = field(default_factory=lambda: array("b"))
    """1 if the model called a tool, 0 if it was offered tools and called none, -1 if unknown or no tools were
    offered."""
    scores: dict[str, array[float]] = field(default_factory=dict)
    """Scores by component: NaN for a rollout without a score. A column ends at the last rollout with a score."""
    form_metric: array[float] = field(default_factory=lambda: array("d"))
    """The metric `form_name`, which is high for a correct format. Used if no component rewards the format."""
    form_name: str | None = None
    answers: array[float] = field(default_factory=lambda: array("d"))
    """The reward of each rollout for its answer: NaN without components. The column ends at the last rollout with
    components."""
    answer_stated: float = 0.0
    """The largest sum of positive weights of the components that judge the answer, in one rollout."""
    traces: int = 0
    """The most traces of an episode; 0 if the layout does not store episodes."""

    @property
    def separates_answer(self) -> bool:
        """Whether some weighted components judge the answer and others form, length or style, with known weights."""
        if any(weight is None for weight in self.weights.values()):
            return False
        paid = [name for name, weight in self.weights.items() if weight]
        judging = [judges_answer(name) for name in paid]
        return any(judging) and not all(judging) and any((self.weights[n] or 0) > 0 for n in paid if judges_answer(n))

    @property
    def style_names(self) -> tuple[str, ...]:
        """The names of the weighted components that judge form, length or style."""
        return tuple(name for name, weight in self.weights.items() if weight and not judges_answer(name))

    def solved(self, best: float) -> array[int]:
        """Return 1 for every scored rollout that counts as solved, else 0.

        A solved rollout has at least half of the attainable reward `best`, and some reward for its answer if the
        components separate the answer.
        """
        least = PASS_THRESHOLD * best
        if not self.separates_answer:
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
        """The name and scores of the component that rewards the format, or of a metric of the format; None without one.

        A component counts only if there are others beside it.
        """
        if len(self.scores) > 1:
            for name, column in self.scores.items():
                if pays_for_form(name, self.weights[name]):
                    return name, column
        if self.form_name is None or self.form_name in self.scores:
            return None
        return self.form_name, self.form_metric


_BATCH = 100
"""Number of rollouts that are taken apart into columns at once. Columns of a batch take half as long as single numbers,
and batches of a thousand rollouts take a tenth longer, because they outgrow the processor's caches."""


def collect_sample(rollouts: Iterable[Rollout], weights: Mapping[str, float]) -> RolloutSample:
    """Collect rollouts into columns. Failed rollouts are only counted, because an error is not a wrong answer.

    `weights` has the weights of components whose results do not store them (v0).
    """
    sample = RolloutSample()
    waiting = iter(rollouts)
    while batch := list(islice(waiting, _BATCH)):
        _add(sample, batch, weights)
    return sample


def _add(sample: RolloutSample, batch: list[Rollout], weights: Mapping[str, float]) -> None:
    """Append a batch of rollouts to the columns of the sample."""
    index = sample.index
    numbers = [index.setdefault(rollout.task, len(index)) for rollout in batch]
    finished = [rollout for rollout in batch if rollout.error is None]
    scored = [rollout for rollout in finished if rollout.reward is not None and not rollout.nonfinite]
    sample.rollouts += len(batch)
    sample.errors += len(batch) - len(finished)
    sample.nonfinite += len(finished) - len(scored)
    sample.traces = max(sample.traces, *[rollout.traces for rollout in batch])
    cut = [rollout.completion_tokens / rollout.replies for rollout in finished if rollout.truncated]
    sample.truncated += len(cut)
    sample.longest_cut = max([sample.longest_cut, *cut])
    first = len(sample.rewards)
    if len(scored) < len(batch):
        numbers = [index[rollout.task] for rollout in scored]
    sample.task.fromlist(numbers)
    sample.rewards.extend([rollout.reward for rollout in scored if rollout.reward is not None])
    sample.lengths.fromlist([rollout.completion_tokens for rollout in scored])
    sample.reply_lengths.fromlist([rollout.completion_tokens / rollout.replies for rollout in scored])
    sample.prompts.fromlist([rollout.prompt_tokens for rollout in scored])
    sample.cut.fromlist([rollout.truncated for rollout in scored])
    sample.called.fromlist([-1 if rollout.called_tool is None else rollout.called_tool for rollout in scored])
    row = first
    for alike in _alike([rollout.components for rollout in scored]):
        _scores(sample, row, alike, weights)
        row += len(alike)
    for row, rollout in enumerate(scored, first):
        if rollout.metrics:
            _metrics(sample, row, rollout.metrics)


_Components = Mapping[str, tuple[float, float | None]]
"""The components of a rollout: name to (score, weight)."""


def _alike(every: list[_Components]) -> Iterator[list[_Components]]:
    """Split the components of consecutive rollouts into runs with equal names and weights: mostly one run."""
    first = every[0] if every else {}
    same_names = all(components.keys() == first.keys() for components in every)
    if same_names and all(
        {components[name][1] for components in every} == {weight} for name, (_, weight) in first.items()
    ):
        yield every
    else:
        yield from (list(alike) for _, alike in groupby(every, _shape))


def _shape(components: _Components) -> list[tuple[str, float | None]]:
    return [(name, weight) for name, (_, weight) in components.items()]


def _scores(sample: RolloutSample, row: int, rollouts: Sequence[_Components], weights: Mapping[str, float]) -> None:
    """Append the scores of consecutive rollouts, from `row` on, whose components have the same names and weights."""
    if not rollouts or not rollouts[0]:
        return
    stated = answer_stated = 0.0
    answers = [0.0] * len(rollouts)
    for name, (_, own_weight) in rollouts[0].items():
        weight = own_weight
        if weight is None:
            weight = weights.get(name)
            if weight is None and weights:
                continue  # v0 also lists metrics, which have no weight, among its reward functions
        scores = [components[name][0] for components in rollouts]
        if weight:
            if weight > 0:
                stated += weight
            if judges_answer(name):
                answers = [answer + weight * score for answer, score in zip(answers, scores, strict=True)]
                if weight > 0:
                    answer_stated += weight
        sample.weights[name] = weight
        _extend(sample.scores.setdefault(name, array("d")), row, scores)
    _extend(sample.answers, row, answers)
    sample.stated = max(sample.stated, stated)
    sample.answer_stated = max(sample.answer_stated, answer_stated)


def _extend(column: array[float], row: int, numbers: list[float]) -> None:
    """Append numbers to a column from `row` on. Rows that the column lacks before are NaN."""
    column.extend([math.nan] * (row - len(column)))
    column.fromlist(numbers)


def _metrics(sample: RolloutSample, row: int, metrics: Mapping[str, float]) -> None:
    """Append the metric that measures the format. The first rollout with such a metric decides its name."""
    if sample.form_name is None:
        for name in metrics:
            if measures_form(name):
                sample.form_name = name
                break
        else:
            return
    score = metrics.get(sample.form_name)
    if score is not None:
        _extend(sample.form_metric, row, [score])


def rows_by_task(sample: RolloutSample) -> Iterator[array[int]]:
    """Yield the row numbers of each task with scored rollouts, in order of the tasks' first appearance.

    A row number is an index into the columns. The function is a counting sort.
    """
    starts = array("i", [0]) * (len(sample.index) + 1)
    for number in sample.task:
        starts[number + 1] += 1
    for number in range(len(sample.index)):
        starts[number + 1] += starts[number]
    places, rows = array("i", starts), array("i", [0]) * len(sample.task)
    for row, number in enumerate(sample.task):
        rows[places[number]] = row
        places[number] += 1
    for number in range(len(sample.index)):
        if starts[number] < starts[number + 1]:
            yield rows[starts[number] : starts[number + 1]]


PASS_THRESHOLD = 0.5
"""Share of the attainable reward with which a rollout counts as solved."""
_KS = (1, 2, 4, 8, 16, 32)
"""The values of k for pass@k."""


@dataclass(slots=True)
class TaskRewards:
    """The rewards of one task's scored rollouts. Rewards and their statistics are unscaled."""

    rewards: array[float]
    rows: array[int]
    """The rollouts' indices into the columns of the sample."""
    mean: float
    variation: float
    """Sum of squared deviations from the task's mean."""
    low: float
    high: float


def tasks_of(sample: RolloutSample) -> list[TaskRewards]:
    """Group the scored rollouts of a sample by task."""
    return _tasks(sample, sample.rewards, rows_by_task(sample))


def answers_of(sample: RolloutSample, tasks: Sequence[TaskRewards] | None = None) -> list[TaskRewards]:
    """Group the rewards for the answers by task. Rollouts without such a reward are left out.

    `tasks` are those of `tasks_of`, if the caller has them: their rows are not sorted again.
    """
    return _tasks(sample, sample.answers, rows_by_task(sample) if tasks is None else (t.rows for t in tasks))


def _tasks(sample: RolloutSample, every: array[float], groups: Iterable[array[int]]) -> list[TaskRewards]:
    """Group a column of rewards by task, without NaN. `groups` are the rows of each task."""
    tasks = []
    known = len(every)
    whole = every is sample.rewards or is_whole(every, sample)
    for task_rows in groups:
        rows = task_rows
        if not whole:
            rows = array("i", [row for row in task_rows if row < known and every[row] == every[row]])
            if not rows:
                continue
        rewards = array("d", map(every.__getitem__, rows))
        low, high = min(rewards), max(rewards)
        if low == high:
            mean, variation = low, 0.0
        else:
            mean = math.fsum(rewards) / len(rewards)
            variation = math.fsum([(r - mean) ** 2 for r in rewards])
        tasks.append(TaskRewards(rewards, rows, mean, variation, low, high))
    return tasks


def is_whole(column: array[float], sample: RolloutSample) -> bool:
    """Whether a column has a number for every scored rollout."""
    return len(column) == len(sample.rewards) and not math.isnan(sum(column))


def pool_counts(sample: RolloutSample, tasks: Sequence[TaskRewards], best: float) -> dict[str, int]:
    """Count the tasks in each difficulty pool (`POOL_NAMES`). `best` is the attainable reward."""
    pools = dict.fromkeys(POOL_NAMES, 0)
    for task, highest in zip(tasks, highest_answers(sample, tasks), strict=True):
        pools[pool_of(task.mean / best, highest / best)] += 1
    return pools


def highest_answers(sample: RolloutSample, tasks: Sequence[TaskRewards]) -> list[float]:
    """Return the highest reward of each task: only for the answer if the components separate the answer."""
    if not sample.separates_answer:
        return [task.high for task in tasks]
    answers = sample.answers
    if is_whole(answers, sample):
        return [max(map(answers.__getitem__, task.rows)) for task in tasks]
    last = len(answers)
    return [
        max((e for row in task.rows if row < last and (e := answers[row]) == e), default=task.high) for task in tasks
    ]


def pass_at_k(tasks: Sequence[TaskRewards], solved: Sequence[int]) -> dict[int, Interval]:
    """Estimate pass@k with its interval, for every k of `_KS` for which more than half of the tasks have k rollouts.

    The estimator is the unbiased one of Chen et al. 2021 (arXiv 2107.03374), over tasks with at least k rollouts.
    `solved` has one entry for each scored rollout. For the interval, n rollouts count as n // k independent draws.
    """
    counts = [(len(t.rows), sum(map(solved.__getitem__, t.rows))) for t in tasks]
    different = set(counts)
    estimates: dict[int, Interval] = {}
    for k in _KS:
        enough = [c for c in counts if c[0] >= k]
        if len(enough) * 2 > len(counts):
            chance = {(n, hit): 1 - math.comb(n - hit, k) / math.comb(n, k) for n, hit in different if n >= k}
            draws = sum(n // k for n, _ in enough)
            estimates[k], _ = clustered_interval([chance[c] for c in enough], draws)
    return estimates


def mean_task_std(tasks: Sequence[TaskRewards], best: float) -> float | None:
    """Return the standard deviation of reward / attainable over all rollouts; None for fewer than two rollouts."""
    n = sum(len(t.rewards) for t in tasks)
    if n < 2:
        return None
    grand = math.fsum(t.mean * len(t.rewards) for t in tasks) / n
    variation = math.fsum(t.variation + len(t.rewards) * (t.mean - grand) ** 2 for t in tasks)
    return math.sqrt(variation / (n - 1)) / best


def signal_fraction(tasks: Sequence[TaskRewards]) -> float | None:
    """Return the share of the rewards' variance that lies inside tasks, from 0 to 1.

    The share is 1 - ICC(1), the intraclass correlation of a one-way analysis of variance. None if there are fewer than
    two tasks, no task has two rollouts, or the rewards do not vary.
    """
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
    """Return the mean over tasks of the unbiased variance of reward / attainable; None without tasks.

    For rewards of 0 and 1 this is the mean of p (1 - p), where p is the chance to solve the task.
    """
    if not grouped:
        return None
    return math.fsum(t.variation / (len(t.rewards) - 1) for t in grouped) / len(grouped) / best**2
