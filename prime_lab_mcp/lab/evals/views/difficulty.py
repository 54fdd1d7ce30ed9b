"""The view `difficulty` of read_eval: tasks by how often the model solves them, and advice on training with them.

Few rollouts say little about a single task: a task with 0 of 4 rollouts solved may be solvable. So the view combines
the rollouts of a task with a prior from all tasks. The prior is a beta distribution Beta(a, b), with the pooled mean of
all tasks and the concentration of maximum likelihood. A task with k of n rollouts solved then has the posterior Beta(a
+ k, b + n - k) for its solve rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.statistics import Cells, fit_concentration, incomplete_beta, log_beta
from prime_lab_mcp.lab.base.text import count, rounded
from prime_lab_mcp.lab.distribution.judge import task_outcomes
from prime_lab_mcp.lab.distribution.sample import (
    EPSILON,
    POOL_NAMES,
    RolloutSample,
    TaskRewards,
    answers_of,
    attainable_reward,
    collect_sample,
    highest_answers,
    pool_of,
    tasks_of,
)
from prime_lab_mcp.lab.distribution.sample_size import needed_size
from prime_lab_mcp.lab.distribution.signal import OutcomeTable, usable_interval, usable_share
from prime_lab_mcp.lab.distribution.summary import MIN_ROLLOUTS
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation, ViewResult
from prime_lab_mcp.lab.evals.views.curriculum import DifficultyFacts, GroupSize, advise_curriculum
from prime_lab_mcp.lab.rollouts.components import judges_answer
from prime_lab_mcp.lab.rollouts.conversation import task_names

Counts = Mapping[tuple[int, int], int]
"""Number of tasks by (solved rollouts, rollouts)."""
_LOG_LOW, _LOG_HIGH = -4.0, 6.0
"""Range of the logarithm of the concentration. At the low end each task is solved always or never, at the high end all
tasks have the same solve rate."""


@dataclass(frozen=True, slots=True)
class BetaPrior:
    """The prior of the solve rate of a task: the beta distribution Beta(a, b)."""

    a: float
    b: float
    fitted: bool
    """False if all rollouts were solved or none. The prior is then uniform."""

    def chance_below(self, rate: float, solved: int, rollouts: int) -> float:
        """Return the probability that the solve rate of a task with `solved` of `rollouts` is below `rate`."""
        return incomplete_beta(self.a + solved, self.b + rollouts - solved, rate)

    def expected(self, solved: int, rollouts: int) -> float:
        """Return the expected solve rate, in a new evaluation, of a task with `solved` of `rollouts`."""
        return (self.a + solved) / (self.a + self.b + rollouts)

    def alive(self, group: int, solved: int, rollouts: int) -> float:
        """Return the probability that a group of new rollouts of a task has both solved and failed ones.

        The task had `solved` of `rollouts` solved, and the group has `group` rollouts.
        """
        a, b = self.a + solved, self.b + rollouts - solved
        normaliser = log_beta(a, b)
        return max(
            0.0, 1 - math.exp(log_beta(a + group, b) - normaliser) - math.exp(log_beta(a, b + group) - normaliser)
        )


def fit_prior(counts: Counts) -> BetaPrior:
    """Return the prior that fits the counts of all tasks."""
    tasks = sum(counts.values())
    mean = math.fsum(times * k / n for (k, n), times in counts.items()) / tasks if tasks else 0.0
    if not 0 < mean < 1:
        return BetaPrior(1.0, 1.0, fitted=False)
    cells: Cells = {(n, k): times for (k, n), times in counts.items()}
    concentration, _ = fit_concentration(cells, mean, _LOG_LOW, _LOG_HIGH)
    return BetaPrior(mean * concentration, (1 - mean) * concentration, fitted=True)


def count_solved(solved: list[tuple[int, int]]) -> Counts:
    """Return how many tasks have the same numbers. `solved` holds (solved rollouts, rollouts) of each task."""
    return Counter(solved)


DEFAULT_GROUP_SIZE = 16
"""Default number of rollouts per task in training."""
GROUP_SIZES = (8, 16, 32, 64)
"""Group sizes for which the view shows the share of usable groups."""
PAGE = 12
"""Tasks of each pool on one page."""


def difficulty_view(
    evaluated: FinishedEvaluation,
    page: int = 1,
    group: int = DEFAULT_GROUP_SIZE,
    *,
    barred: str | None = None,
    easiest: Mapping[str, Any] | None = None,
) -> ViewResult:
    """Return the pools of tasks by difficulty, single tasks of each pool, and advice on training.

    `group` is the number of rollouts per task in training. `barred` says why a config for these tasks would be refused
    whatever their difficulty, such as a verdict that did not pass. `easiest` are the environment's arguments that
    select its easiest tasks, if any are known. Raises EvalError (`eval-nothing-scored`).
    """
    sample = collect_sample(evaluated.rollouts(), evaluated.spec.weights)
    tasks = _by_key(sample, tasks_of(sample))
    if not tasks:
        raise EvalError(
            f"evaluation {evaluated.id} has no scored rollout, so nothing is known about its tasks",
            fix=Fix(
                "Look at the errors with ",
                NamedCall("read_eval", view="rollouts", where="error"),
                ", and run ",
                NamedCall("run_eval"),
                " again.",
            ),
            code="eval-nothing-scored",
        )
    best = _best(sample, evaluated)
    flags = sample.solved(best)
    solved = {key: (sum(flags[row] for row in task.rows), len(task.rows)) for key, task in tasks.items()}
    prior = fit_prior(count_solved(list(solved.values())))
    sized_tasks, sized_best = tasks, best
    if sample.separates_answer:
        sized_tasks = _by_key(sample, answers_of(sample))
        sized_best = attainable_reward(sample.answer_stated, max(t.high for t in sized_tasks.values()))
    sizes = _sizes(list(sized_tasks.values()), sized_best, list(solved.values()), prior, group)
    pools = _pools(sample, tasks, best)
    facts = _facts(sample, sized_tasks, sized_best, solved, prior, sizes, group, evaluated, pools, barred, easiest)
    advice = advise_curriculum(facts)
    names = task_names(evaluated.rollouts(), [key for name in POOL_NAMES for key in _on_page(pools[name], page)])
    data: dict[str, Any] = {
        "id": evaluated.id,
        "model": evaluated.spec.model,
        "group_size": group,
        "tasks": {"evaluated": len(tasks), "of": evaluated.spec.tasks},
        "pools": {name: len(pools[name]) for name in POOL_NAMES},
        "tasks_in": {name: _listed(pools[name], tasks, best, solved, prior, group, page, names) for name in POOL_NAMES},
        "page": page,
        "pages": max(1, *(-(-len(pools[name]) // PAGE) for name in POOL_NAMES)),
        "unsolved": _unsolved(solved, prior, group),
        "group_sizes": [s.as_json() for s in sizes],
        "state": advice.state,
        "advice": list(advice.lines),
        "phases": [p.as_json() for p in advice.phases],
        "settings": advice.settings,
    }
    calls = (
        Next(
            "read_eval", "whether a field of the tasks tells easy from hard", {"eval": evaluated.id, "view": "groups"}
        ),
        *advice.next,
    )
    return ViewResult(_sentence(facts, sizes, group, advice.state), data, advice.findings, calls)


def _best(sample: RolloutSample, evaluated: FinishedEvaluation) -> float:
    declared = math.fsum(w for w in evaluated.spec.weights.values() if w > 0)
    return attainable_reward(max(sample.stated, declared), max(sample.rewards)) or 1.0


def _by_key(sample: RolloutSample, tasks: Sequence[TaskRewards]) -> dict[str, TaskRewards]:
    """Return the tasks with a scored rollout, by key."""
    keys = list(sample.index)
    return {keys[sample.task[task.rows[0]]]: task for task in tasks}


def _varied(task: TaskRewards, sample: RolloutSample, best: float) -> bool:
    """Whether the rewards of a task differ, and not only because of form, length or style."""
    if task.high - task.low <= EPSILON * best:
        return False
    about_answer = [name for name in sample.scores if sample.weights.get(name) != 0 and judges_answer(name)]
    return not about_answer or any(_differs(sample.scores[name], task) for name in about_answer)


def _differs(column: Sequence[float], task: TaskRewards) -> bool:
    scores = [column[row] for row in task.rows if row < len(column) and not math.isnan(column[row])]
    return bool(scores) and max(scores) - min(scores) > EPSILON


def _small(tasks: Mapping[str, TaskRewards], available: int | None) -> bool:
    """Whether the tasks or rollouts are too few for a verdict (docs/validation.md, Reward distributions)."""
    least, each = needed_size(available)
    full = sum(len(t.rewards) >= MIN_ROLLOUTS for t in tasks.values())
    return full < least or sum(len(t.rewards) for t in tasks.values()) < least * each


def _pools(sample: RolloutSample, tasks: Mapping[str, TaskRewards], best: float) -> dict[str, list[str]]:
    """Return the keys of the tasks in each pool, from the lowest mean to the highest.

    The pools are those of prime-rl by task mean, and two more for tasks that are never or always solved, as in
    check_reward_distribution.
    """
    pools: dict[str, list[str]] = {name: [] for name in POOL_NAMES}
    highest = highest_answers(sample, list(tasks.values()))
    for (key, task), most in zip(tasks.items(), highest, strict=True):
        pools[pool_of(task.mean / best, most / best)].append(key)
    for keys in pools.values():
        keys.sort(key=lambda k: (tasks[k].mean, k))
    return pools


def _listed(
    keys: Sequence[str],
    tasks: Mapping[str, TaskRewards],
    best: float,
    solved: dict[str, tuple[int, int]],
    prior: BetaPrior,
    group: int,
    page: int,
    names: Mapping[str, Mapping[str, str]],
) -> list[dict[str, Any]]:
    return [
        {
            **names[key],
            "mean_of_attainable": rounded(tasks[key].mean / best),
            "solved": f"{solved[key][0]} of {solved[key][1]}",
            "signal": rounded(prior.alive(group, *solved[key]), 2),
        }
        for key in _on_page(keys, page)
    ]


def _on_page(keys: Sequence[str], page: int) -> Sequence[str]:
    return keys[(page - 1) * PAGE : page * PAGE]


def _unsolved(solved: dict[str, tuple[int, int]], prior: BetaPrior, group: int) -> dict[str, Any] | None:
    """Return the number of tasks without a solved rollout, and how many of them are probably dead; None without any.

    A task is dead if its solve rate is below 1 / `group`.
    """
    never = [s for s in solved.values() if s[0] == 0]
    if not never:
        return None
    expected_below = math.fsum(prior.chance_below(1 / group, *s) for s in never)
    sizes = sorted({n for _, n in never})
    return {
        "tasks": len(never),
        "rollouts_each": sizes[0] if len(sizes) == 1 else [sizes[0], sizes[-1]],
        "below": f"1/{group}",
        "chance_below": rounded(expected_below / len(never), 3),
        "expected_dead": round(expected_below, 1),
        "prior": "fitted to all tasks" if prior.fitted else "uniform, since all rollouts ended alike",
    }


def _sizes(
    tasks: Sequence[TaskRewards], best: float, solved: Sequence[tuple[int, int]], prior: BetaPrior, group: int
) -> list[GroupSize]:
    """Return the training signal at several group sizes. Empty if each task has only one rollout."""
    grouped = [t for t in tasks if len(t.rewards) > 1]
    if not grouped:
        return []
    coded = task_outcomes(grouped, best)
    table = OutcomeTable()
    for task in coded:
        table.add(task)
    never = [s for s in solved if s[0] == 0]
    sizes = []
    for size in sorted({*GROUP_SIZES, group}):
        interval = usable_interval(coded, size, 0) if size == group else None
        share = interval.value if interval else usable_share(table, size)
        revived = math.fsum(prior.alive(size, *s) for s in never) if prior.fitted else None
        sizes.append(GroupSize(size, share, interval, size / group, revived))
    return sizes


def _facts(
    sample: RolloutSample,
    tasks: Mapping[str, TaskRewards],
    best: float,
    solved: dict[str, tuple[int, int]],
    prior: BetaPrior,
    sizes: Sequence[GroupSize],
    group: int,
    evaluated: FinishedEvaluation,
    pools: Mapping[str, Sequence[str]],
    barred: str | None,
    easiest: Mapping[str, Any] | None,
) -> DifficultyFacts:
    means = {key: task.mean / best for key, task in tasks.items()}
    start = [k for k, m in means.items() if 0.2 <= m <= 0.8]
    return DifficultyFacts(
        tasks=len(means),
        of=evaluated.spec.available,
        rollouts=sample.scored,
        group=group,
        mean=math.fsum(means.values()) / len(means),
        start=len(start),
        start_mean=math.fsum(means[k] for k in start) / len(start) if start else None,
        start_again=math.fsum(prior.expected(*solved[k]) for k in start) / len(start) if start else None,
        rare=sum(0 < m < 0.2 for m in means.values()),
        never=sum(s[0] == 0 for s in solved.values()),
        always=sum(m > 0.8 for m in means.values()),
        easy_pool=len(pools["easy"]) + len(pools["always"]),
        hard_pool=len(pools["hard"]) + len(pools["never"]),
        solved=sum(s[0] for s in solved.values()),
        varied=any(_varied(t, sample, best) for t in tasks.values()),
        small=_small(tasks, evaluated.spec.available),
        sizes=tuple(sizes),
        at=next((s for s in sizes if s.size == group), None),
        environment=evaluated.spec.hosted or evaluated.spec.environment,
        model=evaluated.spec.model,
        evaluation=evaluated.id,
        barred=barred,
        easiest=easiest,
    )


def _sentence(facts: DifficultyFacts, sizes: Sequence[GroupSize], group: int, state: str) -> str:
    if facts.at is None:
        return "Each task has one rollout only, so nothing is known about groups: run run_eval with rollouts=8."
    alive = facts.at.share * facts.tasks
    why = f" ({facts.barred})" if state == "blocked" else ""
    return (
        f"{state}{why}: of {count(facts.tasks, 'task')}, about {alive:.0f} would give a group of {group} a gradient "
        f"at a time ({facts.at.share:.0%}); {facts.never} were not solved once, {facts.start} are solved in 20 to 80 % "
        "of rollouts."
    )
