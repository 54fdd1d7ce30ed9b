"""Rows of a run put in order, and what can be said of a series of numbers over steps. Pure functions.

A row is one upload of `prime train metrics`: the orchestrator, the trainer and each evaluation upload their own for one
step, a restarted run repeats steps, and values may be missing, null or not finite.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Point = tuple[int, float]

WINDOW = 10
"""Steps of a window, and of the baseline at the start (facts/validation.md 4.3)."""
FEW = 3
"""Steps below which nothing is said, and over which one noisy step is outvoted."""


def merged(rows: Iterable[Row]) -> list[Row]:
    """One row a step, in order of steps; where a step came twice the later upload stands, unless null."""
    by_step: dict[int, dict[str, Any]] = {}
    for row in rows:
        step = step_of(row)
        if step is not None:
            kept = by_step.setdefault(step, {})
            kept.update({name: value for name, value in row.items() if value is not None or name not in kept})
    return [by_step[step] for step in sorted(by_step)]


def step_of(row: Row) -> int | None:
    value = value_of(row, "step")
    return int(value) if value is not None and math.isfinite(value) and abs(value) < 1e12 else None


def value_of(row: Row, name: str) -> float | None:
    value = row.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def points_of(rows: Iterable[Row], name: str) -> list[Point]:
    """Where the metric has a finite value."""
    pairs = [(step_of(row), value_of(row, name)) for row in rows]
    return [(s, v) for s, v in pairs if s is not None and v is not None and math.isfinite(v)]


def smooth(points: Sequence[Point], width: int) -> list[Point]:
    """Running means over at most `width` points up to each."""
    return [
        (step, statistics.fmean(v for _, v in points[max(0, i - width + 1) : i + 1]))
        for i, (step, _) in enumerate(points)
    ]


def steady(points: Sequence[Point]) -> list[Point]:
    """Each point as the median of itself and its neighbours: one odd step neither begins nor ends anything."""
    values = [v for _, v in points]
    return [(s, statistics.median(values[max(0, i - 1) : i + 2])) for i, (s, _) in enumerate(points)]


def lasts(points: Sequence[Point], holds: Callable[[float], bool]) -> bool:
    """Whether it holds now and not by one odd step: of the window's mean and of the newest few points' median."""
    return len(points) >= FEW and holds(mean(points[-WINDOW:])) and holds(median(points[-FEW:]))


def onset(points: Sequence[Point], holds: Callable[[float], bool]) -> int:
    """The step from which it holds until now, odd steps aside; the newest step where it does not hold now."""
    kept = streak(steady(points), holds)
    first = kept[0][0] if kept else points[-1][0]
    return next((s for s, v in points if s >= first and holds(v)), first)


def streak(points: Sequence[Point], holds: Callable[[float], bool]) -> list[Point]:
    """The points at the end for which it holds without a break."""
    kept: list[Point] = []
    for point in reversed(points):
        if not holds(point[1]):
            break
        kept.append(point)
    return kept[::-1]


def baseline(points: Sequence[Point]) -> float:
    """The level at the start: the median of the first ten steps, or of the first half where there are fewer."""
    return median(points[: min(WINDOW, max(FEW, len(points) // 2))])


def noise(points: Sequence[Point]) -> float:
    """Standard deviation from step to step, trends and a few odd steps aside (median absolute difference)."""
    steps = [abs(b - a) for (_, a), (_, b) in itertools.pairwise(points)]
    # For normal noise the median of |difference| is 0.6745 times the root of 2 times its deviation.
    return statistics.median(steps) / 0.954 if steps else 0.0


def mean(points: Sequence[Point]) -> float:
    return statistics.fmean(v for _, v in points) if points else 0.0


def median(points: Sequence[Point]) -> float:
    return statistics.median(v for _, v in points) if points else 0.0


def slope(points: Sequence[Point]) -> float:
    """Change per step, by least squares; 0 where all points stand at one step."""
    if len({s for s, _ in points}) < 2:
        return 0.0
    return statistics.linear_regression([s for s, _ in points], [v for _, v in points]).slope
