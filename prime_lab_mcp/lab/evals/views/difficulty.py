"""`difficulty`: tasks by how often the model earns them, and what training at a group size would make of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.distribution.attainable import EPSILON
from prime_lab_mcp.lab.distribution.collect import Sample, collect
from prime_lab_mcp.lab.distribution.judge import outcomes
from prime_lab_mcp.lab.distribution.measured import MIN_ROLLOUTS, MIN_TASKS
from prime_lab_mcp.lab.distribution.pools import NAMES, pool_of
from prime_lab_mcp.lab.distribution.signal import Table, usable, usable_share
from prime_lab_mcp.lab.distribution.tasks import PASS_THRESHOLD, Task, tasks_of
from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.earned import judges_form
from prime_lab_mcp.lab.evals.views.phases import advise
from prime_lab_mcp.lab.evals.views.phases_facts import Facts, GroupSize
from prime_lab_mcp.lab.evals.views.posterior import Prior, counted, fit
from prime_lab_mcp.lab.evals.views.viewed import Evaluated, Viewed
from prime_lab_mcp.lab.report import Next
from prime_lab_mcp.lab.text import count, rounded

GROUP = 16
"""Rollouts per task in training unless told otherwise."""
SIZES = (8, 16, 32, 64)
PAGE = 12
"""Tasks of each pool on one page."""


def difficulty(evaluated: Evaluated, page: int = 1, group: int = GROUP) -> Viewed:
    """Pools, what single tasks are worth, and advice. Raises EvalError (`eval-nothing-scored`)."""
    sample = collect(evaluated.rollouts(), evaluated.spec.weights)
    tasks = _by_key(sample)
    if not tasks:
        raise EvalError(
            f"evaluation {evaluated.id} has no scored rollout, so nothing is known about its tasks",
            fix='Look at the errors with read_eval(view="rollouts", where="error"), and run run_eval again.',
            code="eval-nothing-scored",
        )
    best = _best(sample, evaluated)
    solved = {key: _solved(task, best) for key, task in tasks.items()}
    prior = fit(counted(list(solved.values())))
    sizes = _sizes(list(tasks.values()), best, list(solved.values()), prior, group)
    facts = _facts(sample, tasks, best, solved, prior, sizes, group, evaluated)
    advice = advise(facts)
    pools = _pools(tasks, best)
    data: dict[str, Any] = {
        "id": evaluated.id,
        "model": evaluated.spec.model,
        "group_size": group,
        "tasks": {"evaluated": len(tasks), "of": evaluated.spec.tasks},
        "pools": {name: len(pools[name]) for name in NAMES},
        "tasks_in": {name: _listed(pools[name], tasks, best, solved, prior, group, page) for name in NAMES},
        "page": page,
        "pages": max(1, *(-(-len(pools[name]) // PAGE) for name in NAMES)),
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
    return Viewed(_sentence(facts, sizes, group, advice.state), data, advice.findings, calls)


def _best(sample: Sample, evaluated: Evaluated) -> float:
    from prime_lab_mcp.lab.distribution.attainable import attainable

    known = math.fsum(w for w in evaluated.spec.weights.values() if w > 0)
    return attainable(max(sample.stated, known), max(sample.rewards)) or 1.0


def _by_key(sample: Sample) -> dict[str, Task]:
    """Tasks with a scored rollout, by key."""
    keys = list(sample.index)
    return {keys[sample.task[task.rows[0]]]: task for task in tasks_of(sample)}


def _solved(task: Task, best: float) -> tuple[int, int]:
    return sum(r >= PASS_THRESHOLD * best for r in task.rewards), len(task.rewards)


def _varied(task: Task, sample: Sample, best: float) -> bool:
    """Whether a task's rewards differ by more than their form: by a part that is named after none."""
    if task.high - task.low <= EPSILON * best:
        return False
    others = [name for name in sample.scores if sample.weights.get(name) != 0 and not judges_form(name)]
    return not others or any(_differs(sample.scores[name], task) for name in others)


def _differs(column: Sequence[float], task: Task) -> bool:
    found = [column[row] for row in task.rows if row < len(column) and not math.isnan(column[row])]
    return bool(found) and max(found) - min(found) > EPSILON


def _small(tasks: Mapping[str, Task]) -> bool:
    """Too small for the judgement as well (facts/validation 3.4)."""
    return sum(len(t.rewards) >= MIN_ROLLOUTS for t in tasks.values()) < MIN_TASKS


def _pools(tasks: Mapping[str, Task], best: float) -> dict[str, list[str]]:
    """prime-rl's pools by task mean, with exact 0 and exact 1 apart, as check_reward_distribution counts them."""
    found: dict[str, list[str]] = {name: [] for name in NAMES}
    for key, task in tasks.items():
        found[pool_of(task.mean / best, max(task.rewards) / best)].append(key)
    for keys in found.values():
        keys.sort(key=lambda k: (tasks[k].mean, k))
    return found


def _listed(
    keys: Sequence[str], tasks: Mapping[str, Task], best: float, solved: dict[str, tuple[int, int]], prior: Prior,
    group: int, page: int,
) -> list[dict[str, Any]]:  # fmt: skip
    return [
        {
            "task": key[:16],
            "mean": rounded(tasks[key].mean / best),
            "solved": f"{solved[key][0]} of {solved[key][1]}",
            "signal": rounded(prior.alive(group, *solved[key]), 2),
        }
        for key in keys[(page - 1) * PAGE : page * PAGE]
    ]


def _unsolved(solved: dict[str, tuple[int, int]], prior: Prior, group: int) -> dict[str, Any] | None:
    """Tasks that no rollout solved, and how sure it is that they are dead for this group size."""
    never = [s for s in solved.values() if s[0] == 0]
    if not never:
        return None
    below = math.fsum(prior.chance_below(1 / group, *s) for s in never)
    sizes = sorted({n for _, n in never})
    return {
        "tasks": len(never),
        "rollouts_each": sizes[0] if len(sizes) == 1 else [sizes[0], sizes[-1]],
        "below": f"1/{group}",
        "chance_below": rounded(below / len(never), 3),
        "expected_dead": round(below, 1),
        "prior": "fitted to all tasks" if prior.fitted else "uniform, since all rollouts ended alike",
    }


def _sizes(
    tasks: Sequence[Task], best: float, solved: Sequence[tuple[int, int]], prior: Prior, group: int
) -> list[GroupSize]:
    """The share of usable groups at several group sizes, and what the unsolved tasks would add to it."""
    grouped = [t for t in tasks if len(t.rewards) > 1]
    if not grouped:
        return []
    coded = outcomes(grouped, best)
    table = Table()
    for task in coded:
        table.add(task)
    never = [s for s in solved if s[0] == 0]
    found = []
    for size in sorted({*SIZES, group}):
        interval = usable(coded, size, 0) if size == group else None
        share = interval.value if interval else usable_share(table, size)
        revived = math.fsum(prior.alive(size, *s) for s in never) if prior.fitted else None
        found.append(GroupSize(size, share, interval, size / group, revived))
    return found


def _facts(
    sample: Sample, tasks: Mapping[str, Task], best: float, solved: dict[str, tuple[int, int]], prior: Prior,
    sizes: Sequence[GroupSize], group: int, evaluated: Evaluated,
) -> Facts:  # fmt: skip
    means = {key: task.mean / best for key, task in tasks.items()}
    start = [k for k, m in means.items() if 0.2 <= m <= 0.8]
    return Facts(
        tasks=len(means),
        of=evaluated.spec.tasks,
        rollouts=sample.scored,
        group=group,
        mean=math.fsum(means.values()) / len(means),
        start=len(start),
        start_mean=math.fsum(means[k] for k in start) / len(start) if start else None,
        start_again=math.fsum(prior.expected(*solved[k]) for k in start) / len(start) if start else None,
        rare=sum(0 < m < 0.2 for m in means.values()),
        never=sum(s[0] == 0 for s in solved.values()),
        always=sum(m > 0.8 for m in means.values()),
        solved=sum(s[0] for s in solved.values()),
        varied=any(_varied(t, sample, best) for t in tasks.values()),
        small=_small(tasks),
        sizes=tuple(sizes),
        at=next((s for s in sizes if s.size == group), None),
        environment=evaluated.spec.hosted or evaluated.spec.environment,
        model=evaluated.spec.model,
        evaluation=evaluated.id,
    )


def _sentence(facts: Facts, sizes: Sequence[GroupSize], group: int, state: str) -> str:
    if facts.at is None:
        return "Each task has one rollout only, so nothing is known about groups: run run_eval with rollouts=8."
    alive = facts.at.share * facts.tasks
    return (
        f"{state}: of {count(facts.tasks, 'task')}, about {alive:.0f} would give a group of {group} a gradient at a "
        f"time ({facts.at.share:.0%}); {facts.never} were not solved once, {facts.start} are solved in 20 to 80 % of "
        "rollouts."
    )
