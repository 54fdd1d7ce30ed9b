"""What the picture of an evaluation shows, as plain JSON for the program that draws it. Bounded, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.distribution.advice import MEAN_HIGH, MEAN_LOW
from prime_lab_mcp.lab.distribution.summary import Check, Distribution
from prime_lab_mcp.lab.evals.pictures.survey import STEPS, Survey
from prime_lab_mcp.lab.text import clip, count, escape

_NAME = 48


def figure(title: str, judged: Distribution, seen: Survey, *, rehearsal: bool) -> dict[str, Any]:
    """Bars, marks and texts. Heights are rollouts, places are reward / attainable; tasks stand from worst to best."""
    return {
        "title": title,
        "rehearsal": rehearsal,
        "histogram": {
            "bars": [{"at": i / STEPS, "count": n} for i, n in enumerate(seen.bars) if n],
            "step": 1 / STEPS,
            "below": seen.below,
            "above": seen.above,
            "failed": seen.failed,
        },
        "mean": judged.mean,
        "interval": [judged.mean_low, judged.mean_high],
        "limits": [MEAN_LOW, MEAN_HIGH],
        "checks": [{"text": _check(c), "passed": c.passed} for c in judged.checks],
        "tasks": [{"left": left, "width": width, "mean": mean} for left, width, mean in _tasks(seen)],
        "pools": list(_pools(judged.difficulty)),
        "signal": _signal(judged),
    }


def title_of(environment: str, model: str, tasks: int, rollouts: int, status: str) -> str:
    """One line; names are foreign and cut."""
    names = f"{escape(clip(environment, _NAME))} with {escape(clip(model, _NAME))}"
    return f"{names}: {count(tasks, 'task')}, {count(rollouts, 'rollout')}, {status}"


def _check(check: Check) -> str:
    value = "n/a" if check.value is None else f"{check.value:,.3f}".rstrip("0").rstrip(".")
    return f"{check.name} {value} ({check.threshold})"


def _tasks(seen: Survey) -> Iterator[tuple[int, int, float]]:
    left = 0
    for bar in seen.tasks:
        yield left, bar.width, round(bar.mean, 4)
        left += bar.width


def _pools(difficulty: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Every pool as the stretch of tasks it takes; they come from worst to best as the tasks do."""
    left = 0
    for name, tasks in difficulty.items():
        yield {"name": name, "left": left, "tasks": tasks}
        left += tasks


def _signal(judged: Distribution) -> str:
    usable = judged.usable_groups
    if usable.share is None:
        return "too few rollouts per task to tell the share of usable groups"
    between = f" ({usable.low:.0%} to {usable.high:.0%})" if usable.low is not None and usable.high is not None else ""
    return f"{usable.share:.0%}{between} of groups of {usable.group_size} would have a gradient"
