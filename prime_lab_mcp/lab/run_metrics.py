"""The metrics of a run by what they mean, whatever the names they were uploaded under.

Names are those of prime-rl 559b4477 (21 Aug 2026; orchestrator/metrics.py, trainer/rl/train.py):
`{scope}/{subset}/{agent}/{metric}/{stat}` with scope `train/agg` or `eval/<source>`, subset `all` or `effective`
(without errors). Before them stand the short names of dashboards and of older runs.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.series import FEW, WINDOW, Point, Row, median, merged, points_of, step_of, value_of

ENTROPY = ("entropy/all/mean", "entropy/mean", "entropy")
MISMATCH = ("mismatch_kl/all/mean", "mismatch_kl/mean")
STEP_TIME = ("time/step", "step_time", "time/step/mean")
GRADIENT = "optim/grad_norm"
_AGENT = re.compile(r"train/agg/(?:all|effective)/([^/]+)/(?:reward|is_trainable|has_error)/mean")
_EVAL = re.compile(
    r"eval/(?P<source>.+?)/(?:(?P<subset>effective|all)/(?P<agent>[^/]+)/)?(?P<metric>reward/mean|avg@\d+)"
)


@dataclass(frozen=True, slots=True)
class Series:
    """`name`: the metric as it was uploaded, empty where the run has none of that meaning."""

    name: str
    points: list[Point]


def reward(rows: Sequence[Row]) -> Series:
    return _first(rows, ("reward/mean",), "reward/mean", ("effective", "all"), ("reward/all/mean",))


def tokens(rows: Sequence[Row]) -> Series:
    """Output tokens of a rollout."""
    names = ("num_output_tokens/mean", "train/agg/effective/num_output_tokens/mean")
    return _first(rows, names, "num_output_tokens/mean", ("effective", "all"), ("seq_len/mean",))


def truncated(rows: Sequence[Row]) -> Series:
    """Share of rollouts that were cut off."""
    return _first(rows, ("is_truncated/mean",), "is_truncated/mean", ("effective", "all"))


def errors(rows: Sequence[Row]) -> Series:
    """Share of rollouts that ended in an error."""
    return _first(rows, ("has_error/mean",), "has_error/mean", ("all",), ("train/agg/all/has_error/mean", "error/mean"))


def entropy(rows: Sequence[Row]) -> Series:
    """Nats per token."""
    return _first(rows, ENTROPY)


def mismatch(rows: Sequence[Row]) -> Series:
    """KL divergence between trainer and inference."""
    return _first(rows, MISMATCH)


def silent(rows: Sequence[Row]) -> Series:
    """Share of rollouts in groups that all score the same, which carry no gradient."""
    found = _first(rows, ("zero_advantage/share",))
    if found.points:
        return found
    for metric in ("is_trainable/mean", "solved_some"):
        found = _first(rows, (), metric, ("all",))
        if found.points:
            return Series(found.name, [(s, 1 - v) for s, v in found.points])
    return _first(rows, ("batch/solve_none_all",))


def component(rows: Sequence[Row], *words: str, without: str = "\0") -> Series:
    """The first reward or metric of the environment in whose name one of the words stands, without errored rollouts."""
    names = {n for row in rows for n in row if n.endswith("/mean") and not n.startswith("eval/")}
    fitting = [n for n in names if without not in n.lower() and any(word in n.lower() for word in words)]
    order = sorted(fitting, key=lambda n: ("/all/" in n, not n.startswith("train/agg/"), "/metrics/" in n, n))
    return _first(rows, order)


def form(rows: Sequence[Row]) -> Series:
    return component(rows, "format")


def correctness(rows: Sequence[Row]) -> Series:
    return component(rows, "correct", "accuracy", "exact", "solved_", "matches", "answer", without="format")


def attainable(rows: Sequence[Row]) -> float:
    """The best reward that a rollout can get: 1, or what some rollout got above it."""
    best = max((v for _, v in reward(rows).points), default=1.0)
    names = [n for n in _names(rows) if re.fullmatch(r"(train/agg/[^/]+/[^/]+/)?reward/max", n)]
    return max([1.0, best, *(v for name in names for _, v in points_of(rows, name))])


def held_out(rows: Sequence[Row]) -> dict[str, list[Point]]:
    """Mean reward on each eval source, as (step, mean) in order of steps; without errored rollouts where told."""
    ranked: dict[str, list[tuple[tuple[bool, ...], str]]] = {}
    rows = merged(rows)
    for name in _names(rows):
        found = _EVAL.fullmatch(name)
        if found is not None:
            rank = (found["subset"] == "all", found["metric"] != "reward/mean", found["agent"] not in (None, "agent"))
            ranked.setdefault(found["source"], []).append((rank, name))
    return {source: points_of(rows, min(names)[1]) for source, names in sorted(ranked.items())}


def step_seconds(rows: Sequence[Row]) -> float | None:
    """How long a step takes, of the last ten."""
    points = _first(rows, STEP_TIME).points
    return median(points[-WINDOW:]) if points else None


def ratio_at(points: Sequence[Point], before: int, after: int) -> float:
    """How many times as high a level is around one step as around an earlier one."""
    earlier = [v for s, v in points if s <= before][-FEW:]
    later = [v for s, v in points if s >= after][:FEW]
    if not earlier or not later or statistics.median(earlier) <= 0:
        return 1.0
    return statistics.median(later) / statistics.median(earlier)


def trainable_agents(rows: Sequence[Row]) -> list[str]:
    """The seats of an episode that are trained: of several, those with a gradient (a frozen judge has none)."""
    seats = sorted({found[1] for name in _names(rows) if (found := _AGENT.fullmatch(name))})
    if len(seats) < 2:
        return seats
    trained = [a for a in seats if any(v > 0 for _, v in points_of(rows, f"train/agg/all/{a}/is_trainable/mean"))]
    return trained or seats


def _first(
    rows: Sequence[Row],
    names: Sequence[str],
    of_agent: str | None = None,
    subsets: Sequence[str] = (),
    otherwise: Sequence[str] = (),
) -> Series:
    """The first of the names that has a finite value; a metric of several trained agents as their mean."""
    for name in names:
        if points := points_of(rows, name):
            return Series(name, points)
    agents = trainable_agents(rows) if of_agent else []
    for subset in subsets:
        told = [f"train/agg/{subset}/{agent}/{of_agent}" for agent in agents]
        if points := _mean_of(rows, told):
            return Series(told[0] if len(told) == 1 else f"train/agg/{subset}/*/{of_agent}", points)
    for name in otherwise:
        if points := points_of(rows, name):
            return Series(name, points)
    return Series("", [])


def _mean_of(rows: Sequence[Row], names: Sequence[str]) -> list[Point]:
    if len(names) == 1:
        return points_of(rows, names[0])
    points = []
    for row in rows:
        step = step_of(row)
        values = [v for _, v in (p for name in names for p in points_of([row], name))]
        if step is not None and values and value_of(row, "step") is not None:
            points.append((step, statistics.fmean(values)))
    return points


def _names(rows: Sequence[Row]) -> set[str]:
    return {name for row in rows for name in row if isinstance(name, str)}
