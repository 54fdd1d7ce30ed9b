"""Whether the reward on held-out tasks rose while a run trained: the first evaluation of each source against the last.

The metrics give means only, of tasks that are drawn anew or not, so the two are taken as independent: a reward within
[0, 1] of mean m has a variance of m(1-m) at most, and tasks, not rollouts, are counted. That is wider than a paired
comparison; an evaluation of the checkpoint on the same tasks (`read_eval` compare) decides more finely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Word = Literal["rose", "fell", "no difference shown", "not judged"]
Z = 1.96
"""Two-sided 95 %."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One eval source. Steps are those of the run; `half_width` of the difference of means, None where not judged."""

    source: str
    first: tuple[int, float]
    last: tuple[int, float]
    best: tuple[int, float]
    points: int
    half_width: float | None

    @property
    def difference(self) -> float:
        return self.last[1] - self.first[1]

    @property
    def word(self) -> Word:
        if self.half_width is None:
            return "not judged"
        if abs(self.difference) <= self.half_width:
            return "no difference shown"
        return "rose" if self.difference > 0 else "fell"

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "source": self.source,
            "first": _point(self.first),
            "last": _point(self.last),
            "best": _point(self.best),
            "points": self.points,
            "difference": round(self.difference, 4),
            "result": self.word,
        }
        return shown if self.half_width is None else shown | {"half_width": round(self.half_width, 4)}


def held_out(series: Mapping[str, Sequence[tuple[int, float]]], tasks: int | None) -> tuple[HeldOut, ...]:
    """Of every source with at least two evaluations. `tasks`: tasks of one evaluation; None where not known."""
    found = []
    for source, given in series.items():
        points = sorted((step, mean) for step, mean in given if math.isfinite(mean))
        if len(points) < 2:
            continue
        best = max(points, key=lambda point: point[1])
        found.append(HeldOut(source, points[0], points[-1], best, len(points), _half(points, tasks)))
    return tuple(found)


def _half(points: Sequence[tuple[int, float]], tasks: int | None) -> float | None:
    means = (points[0][1], points[-1][1])
    if tasks is None or tasks < 2 or any(not 0 <= mean <= 1 for mean in means):
        return None
    # As Agresti and Caffo: one success and one failure more on each side keeps means of 0 and 1 from being certain.
    spread = sum((p := (m * tasks + 1) / (tasks + 2)) * (1 - p) / (tasks + 2) for m in means)
    return Z * math.sqrt(spread)


def _point(point: tuple[int, float]) -> dict[str, Any]:
    return {"step": point[0], "mean": round(point[1], 4)}
