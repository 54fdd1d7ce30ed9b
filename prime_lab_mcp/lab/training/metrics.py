"""Finds each metric of a run under all names that prime-rl uploads it with, and computes statistics over steps.

Everything here is a pure function over the rows of `prime train metrics`. A row is one upload: the orchestrator, the
trainer and each evaluation upload their own row for a step, a restarted run repeats steps, and values may be missing,
null or not finite.

Names are those of prime-rl 559b4477 (21 Aug 2026; orchestrator/metrics.py, trainer/rl/train.py):
`{scope}/{subset}/{agent}/{metric}/{stat}` with scope `train/agg` or `eval/<source>`, subset `all` or `effective`
(without errors). The short names of dashboards and of older runs take precedence.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.rollouts.components import is_about_form, pays_for_form

MetricRow = Mapping[str, Any]
MetricPoint = tuple[int, float]

WINDOW_STEPS = 10
"""Steps of a window, and of the baseline at the start of a run (docs/validation.md, Anomalies)."""
FEW_POINTS = 3
"""The least number of steps for a judgement. Also the length of medians that a single noisy step does not change."""


def merge_rows(rows: Iterable[MetricRow]) -> list[MetricRow]:
    """Merge the rows of each step into one, ordered by step. If a step occurs twice, the later value wins unless it is
    null."""
    by_step: dict[int, dict[str, Any]] = {}
    for row in rows:
        step = step_of(row)
        if step is not None:
            merged = by_step.setdefault(step, {})
            merged.update({name: value for name, value in row.items() if value is not None or name not in merged})
    return [by_step[step] for step in sorted(by_step)]


def step_of(row: MetricRow) -> int | None:
    """The step of a row; None if it has no finite one."""
    value = value_of(row, "step")
    return int(value) if value is not None and math.isfinite(value) and abs(value) < 1e12 else None


def value_of(row: MetricRow, name: str) -> float | None:
    """The number under a name in a row; None if there is none."""
    value = row.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def points_of(rows: Iterable[MetricRow], name: str) -> list[MetricPoint]:
    """The points at which a metric has a finite value."""
    pairs = [(step_of(row), value_of(row, name)) for row in rows]
    return [(s, v) for s, v in pairs if s is not None and v is not None and math.isfinite(v)]


def smooth(points: Sequence[MetricPoint], width: int) -> list[MetricPoint]:
    """Running means over at most `width` points up to and including each point."""
    return [
        (step, statistics.fmean(v for _, v in points[max(0, i - width + 1) : i + 1]))
        for i, (step, _) in enumerate(points)
    ]


def steady(points: Sequence[MetricPoint]) -> list[MetricPoint]:
    """Replace each value by the median of the value and its two neighbours, so that one outlier changes no streak."""
    numbers = [v for _, v in points]
    return [(s, statistics.median(numbers[max(0, i - 1) : i + 2])) for i, (s, _) in enumerate(points)]


def holds_now(points: Sequence[MetricPoint], holds: Callable[[float], bool]) -> bool:
    """Whether a condition holds for both the mean of the last window and the median of the newest few points."""
    return len(points) >= FEW_POINTS and holds(mean(points[-WINDOW_STEPS:])) and holds(median(points[-FEW_POINTS:]))


def onset(points: Sequence[MetricPoint], holds: Callable[[float], bool]) -> int:
    """The first step of the current streak in which a condition holds, ignoring outliers.

    If the condition does not hold at the newest step, the result is the newest step.
    """
    lasting = streak(steady(points), holds)
    first = lasting[0][0] if lasting else points[-1][0]
    return next((s for s, v in points if s >= first and holds(v)), first)


def streak(points: Sequence[MetricPoint], holds: Callable[[float], bool]) -> list[MetricPoint]:
    """The points at the end of a series for which a condition holds without a break."""
    lasting: list[MetricPoint] = []
    for point in reversed(points):
        if not holds(point[1]):
            break
        lasting.append(point)
    return lasting[::-1]


def baseline(points: Sequence[MetricPoint]) -> float:
    """The level at the start: the median of the first ten steps, or of the first half of a shorter series."""
    return median(points[: min(WINDOW_STEPS, max(FEW_POINTS, len(points) // 2))])


def noise(points: Sequence[MetricPoint]) -> float:
    """The standard deviation from step to step, computed from the median difference, which ignores trends and
    outliers."""
    steps = [abs(b - a) for (_, a), (_, b) in itertools.pairwise(points)]
    # For normal noise the median of |difference| is 0.6745 times the root of 2 times its deviation.
    return statistics.median(steps) / 0.954 if steps else 0.0


def mean(points: Sequence[MetricPoint]) -> float:
    """The mean of the values; 0 without points."""
    return statistics.fmean(v for _, v in points) if points else 0.0


def median(points: Sequence[MetricPoint]) -> float:
    """The median of the values; 0 without points."""
    return statistics.median(v for _, v in points) if points else 0.0


def slope(points: Sequence[MetricPoint]) -> float:
    """The change per step by least squares; 0 where all points have the same step."""
    if len({s for s, _ in points}) < 2:
        return 0.0
    return statistics.linear_regression([s for s, _ in points], [v for _, v in points]).slope


ENTROPY_NAMES = ("entropy/all/mean", "entropy/mean", "entropy")
MISMATCH_NAMES = ("mismatch_kl/all/mean", "mismatch_kl/mean")
STEP_TIME_NAMES = ("time/step", "step_time", "time/step/mean")
GRADIENT_NAME = "optim/grad_norm"
_ANSWER = ("correct", "accuracy", "exact", "solved_", "matches", "answer")
"""Substrings of the names of components that judge the answer."""
_AGENT = re.compile(r"train/agg/(?:all|effective)/([^/]+)/(?:reward|is_trainable|has_error)/mean")
_EVAL = re.compile(
    r"eval/(?P<source>.+?)/(?:(?P<subset>effective|all)/(?P<agent>[^/]+)/)?(?P<metric>reward/mean|avg@\d+)"
)


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """The points of a metric. `name` is the uploaded name, empty if the run has no such metric."""

    name: str
    points: list[MetricPoint]


def reward_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The mean reward per step."""
    return _first(rows, ("reward/mean",), "reward/mean", ("effective", "all"), ("reward/all/mean",))


def token_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The mean number of output tokens of a rollout, per step."""
    names = ("num_output_tokens/mean", "train/agg/effective/num_output_tokens/mean")
    return _first(rows, names, "num_output_tokens/mean", ("effective", "all"), ("seq_len/mean",))


def truncation_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The share of truncated rollouts, per step."""
    return _first(rows, ("is_truncated/mean",), "is_truncated/mean", ("effective", "all"))


def error_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The share of rollouts that ended in an error, per step."""
    return _first(rows, ("has_error/mean",), "has_error/mean", ("all",), ("train/agg/all/has_error/mean", "error/mean"))


def entropy_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The entropy of the policy in nats per token, for each step."""
    return _first(rows, ENTROPY_NAMES)


def mismatch_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The KL divergence between the policies of the trainer and the inference server, per step."""
    return _first(rows, MISMATCH_NAMES)


def silent_group_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The share of rollouts in groups with equal rewards, which carry no gradient, per step."""
    series = _first(rows, ("zero_advantage/share",))
    if series.points:
        return series
    for metric in ("is_trainable/mean", "solved_some"):
        series = _first(rows, (), metric, ("all",))
        if series.points:
            return MetricSeries(series.name, [(s, 1 - v) for s, v in series.points])
    return _first(rows, ("batch/solve_none_all",))


def component_series(rows: Sequence[MetricRow], fits: Callable[[str], bool]) -> MetricSeries:
    """The first reward component or environment metric whose name fits; if possible, without errored rollouts."""
    names = {n for row in rows for n in row if n.endswith("/mean") and not n.startswith("eval/")}
    order = sorted(
        filter(fits, names), key=lambda n: ("/all/" in n, not n.startswith("train/agg/"), "/metrics/" in n, n)
    )
    return _first(rows, order)


def form_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The series of the first component that pays for the form of an answer."""
    return component_series(rows, lambda name: pays_for_form(name, None))


def correctness_series(rows: Sequence[MetricRow]) -> MetricSeries:
    """The series of the first component that pays for a correct answer."""
    return component_series(
        rows, lambda name: any(word in name.lower() for word in _ANSWER) and not is_about_form(name)
    )


def attainable_level(rows: Sequence[MetricRow]) -> float:
    """The highest reward that a rollout can get: 1, or a higher reward that some rollout got."""
    best = max((v for _, v in reward_series(rows).points), default=1.0)
    names = [n for n in _names(rows) if re.fullmatch(r"(train/agg/[^/]+/[^/]+/)?reward/max", n)]
    return max([1.0, best, *(v for name in names for _, v in points_of(rows, name))])


def held_out_series(rows: Sequence[MetricRow]) -> dict[str, list[MetricPoint]]:
    """Mean reward on each eval source as (step, mean), ordered by step; without errored rollouts where that is
    reported."""
    ranked: dict[str, list[tuple[tuple[bool, ...], str]]] = {}
    rows = merge_rows(rows)
    for name in _names(rows):
        match = _EVAL.fullmatch(name)
        if match is not None:
            rank = (match["subset"] == "all", match["metric"] != "reward/mean", match["agent"] not in (None, "agent"))
            ranked.setdefault(match["source"], []).append((rank, name))
    return {source: points_of(rows, min(names)[1]) for source, names in sorted(ranked.items())}


def step_seconds(rows: Sequence[MetricRow]) -> float | None:
    """Median duration of the last ten steps in seconds."""
    points = _first(rows, STEP_TIME_NAMES).points
    return median(points[-WINDOW_STEPS:]) if points else None


def ratio_at(points: Sequence[MetricPoint], before: int, after: int) -> float:
    """The level from step `after` on, divided by the level up to step `before`; 1 if it cannot be computed."""
    earlier = [v for s, v in points if s <= before][-FEW_POINTS:]
    later = [v for s, v in points if s >= after][:FEW_POINTS]
    if not earlier or not later or statistics.median(earlier) <= 0:
        return 1.0
    return statistics.median(later) / statistics.median(earlier)


def trainable_agents(rows: Sequence[MetricRow]) -> list[str]:
    """The trained agents of an episode. Of several agents, only those with a gradient count; a frozen judge has
    none."""
    agents = sorted({match[1] for name in _names(rows) if (match := _AGENT.fullmatch(name))})
    if len(agents) < 2:
        return agents
    trained = [a for a in agents if any(v > 0 for _, v in points_of(rows, f"train/agg/all/{a}/is_trainable/mean"))]
    return trained or agents


def _first(
    rows: Sequence[MetricRow],
    names: Sequence[str],
    of_agent: str | None = None,
    subsets: Sequence[str] = (),
    otherwise: Sequence[str] = (),
) -> MetricSeries:
    """The series of the first name that has a finite value. A metric of several trained agents is their mean."""
    for name in names:
        if points := points_of(rows, name):
            return MetricSeries(name, points)
    agents = trainable_agents(rows) if of_agent else []
    for subset in subsets:
        of_agents = [f"train/agg/{subset}/{agent}/{of_agent}" for agent in agents]
        if points := _mean_of(rows, of_agents):
            return MetricSeries(of_agents[0] if len(of_agents) == 1 else f"train/agg/{subset}/*/{of_agent}", points)
    for name in otherwise:
        if points := points_of(rows, name):
            return MetricSeries(name, points)
    return MetricSeries("", [])


def _mean_of(rows: Sequence[MetricRow], names: Sequence[str]) -> list[MetricPoint]:
    if len(names) == 1:
        return points_of(rows, names[0])
    points = []
    for row in rows:
        step = step_of(row)
        numbers = [v for _, v in (p for name in names for p in points_of([row], name))]
        if step is not None and numbers and value_of(row, "step") is not None:
            points.append((step, statistics.fmean(numbers)))
    return points


def _names(rows: Sequence[MetricRow]) -> set[str]:
    return {name for row in rows for name in row if isinstance(name, str)}
