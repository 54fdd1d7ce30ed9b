"""Metric rows of a run as series of numbers: first known name, finite values, running means, streaks at the end."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Point = tuple[int, float]

WINDOW = 10
FEW = 3
"""Rows below which nothing is said, and over which a level is taken as settled."""

REWARD = ("reward/mean", "train/agg/effective/agent/reward/mean", "train/agg/all/agent/reward/mean", "reward/all/mean")
TOKENS = ("num_output_tokens/mean", "train/agg/effective/num_output_tokens/mean", "seq_len/mean")
TRUNCATED = (
    "is_truncated/mean",
    "train/agg/effective/agent/is_truncated/mean",
    "train/agg/all/agent/is_truncated/mean",
)
ERRORS = ("has_error/mean", "train/agg/all/agent/has_error/mean", "error/mean")
ENTROPY = ("entropy/all/mean", "entropy/mean", "entropy")
MISMATCH = ("mismatch_kl/all/mean", "mismatch_kl/mean")
SILENT = ("zero_advantage/share", "batch/solve_none_all")


def reward_series(rows: Sequence[Row]) -> list[Point]:
    """Mean reward per step, where it is known."""
    return series(rows, REWARD)


def step_seconds(rows: Sequence[Row]) -> float | None:
    """How long a step takes, of the last ten."""
    points = series(rows, ("time/step", "step_time", "time/step/mean"))
    return median(points[-WINDOW:]) if points else None


def step_of(row: Row) -> int | None:
    value = value_of(row, "step")
    return int(value) if value is not None and math.isfinite(value) else None


def value_of(row: Row, name: str) -> float | None:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def series(rows: Sequence[Row], names: Sequence[str]) -> list[Point]:
    """Finite values of the first of the names that any row has."""
    for name in names:
        pairs = [(step_of(row), value_of(row, name)) for row in rows]
        points = [(s, v) for s, v in pairs if s is not None and v is not None and math.isfinite(v)]
        if points:
            return points
    return []


def matching(rows: Sequence[Row], fits: Callable[[str], bool]) -> list[Point]:
    names = sorted({name for row in rows for name in row if fits(name)})
    return series(rows, names)


def component(rows: Sequence[Row], word: str) -> list[Point]:
    return matching(rows, lambda name: word in name.lower() and name.endswith("/mean") and not name.startswith("eval/"))


def silent_share(rows: Sequence[Row]) -> list[Point]:
    """Share of groups without a gradient, as it is or as what is not solved by some and missed by others."""
    points = series(rows, SILENT)
    if points:
        return points
    return [(s, 1 - v) for s, v in matching(rows, lambda name: name.endswith("solved_some"))]


def smooth(points: Sequence[Point], width: int) -> list[Point]:
    """Running means over at most `width` rows, so that one noisy step decides nothing."""
    return [
        (step, statistics.fmean(v for _, v in points[max(0, i - width + 1) : i + 1]))
        for i, (step, _) in enumerate(points)
    ]


def streak(points: Sequence[Point], holds: Callable[[float], bool]) -> list[Point]:
    """The points at the end for which it holds without a break."""
    kept: list[Point] = []
    for point in reversed(points):
        if not holds(point[1]):
            break
        kept.append(point)
    return kept[::-1]


def mean(points: Sequence[Point]) -> float:
    return statistics.fmean(v for _, v in points) if points else 0.0


def median(points: Sequence[Point]) -> float:
    return statistics.median(v for _, v in points) if points else 0.0


def slope(points: Sequence[Point]) -> float:
    return statistics.linear_regression([s for s, _ in points], [v for _, v in points]).slope


def ratio_at(points: Sequence[Point], before: int, after: int) -> float:
    earlier = [v for s, v in points if s <= before][-FEW:]
    later = [v for s, v in points if s >= after][:FEW]
    if not earlier or not later or statistics.median(earlier) <= 0:
        return 1.0
    return statistics.median(later) / statistics.median(earlier)


def format_only(rows: Sequence[Row], before: int, after: int) -> bool:
    form, right = dict(component(rows, "format")), dict(component(rows, "correct"))
    if not form or not right:
        return False
    return form.get(after, 0.0) >= 0.99 and abs(right.get(after, 0.0) - right.get(before, 0.0)) < 0.02
