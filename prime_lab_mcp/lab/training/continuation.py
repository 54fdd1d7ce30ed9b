"""Joins a paused run with the runs that continue it.

A resumed run is a new run with metrics and costs of its own. What the user wants to know is about the whole: the reward
before the first step of the first run, and the cost of all runs together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training.metrics import MetricPoint, held_out_series, merge_rows


@dataclass(frozen=True, slots=True)
class EarlierRuns:
    """The runs that a run continues, the nearest first, with what they measured on held-out tasks.

    `spend` is their cost in US dollars; None if the cost of one of them is not known.
    """

    ids: tuple[str, ...] = ()
    series: Mapping[str, Sequence[MetricPoint]] | None = None
    spend: float | None = None

    def joined(self, own: Mapping[str, Sequence[MetricPoint]]) -> dict[str, list[MetricPoint]]:
        """The held-out rewards of all runs by source. A step that was done twice counts as the later run did it."""
        whole = {source: dict(points) for source, points in (self.series or {}).items()}
        for source, points in own.items():
            whole.setdefault(source, {}).update(points)
        return {source: sorted(points.items()) for source, points in whole.items()}


def continuations(lab: Lab, id: str) -> list[Run]:
    """The runs that this machine started from a paused run, by a resume or a submission, newest first."""
    return [r for r in lab.ledger.runs(platform=lab.platform, kind="training") if r.data.get("resumed_from") == id]


async def earlier_runs(lab: Lab, known: Run | None) -> EarlierRuns:
    """Read the metrics and the cost of the runs that a run continues. A part that cannot be read is left out."""
    ids: list[str] = []
    before = known.data.get("resumed_from") if known is not None else None
    while isinstance(before, str) and before not in ids:
        ids.append(before)
        older = lab.ledger.runs(id=before, platform=lab.platform)
        before = older[0].data.get("resumed_from") if older else None
    series: dict[str, list[MetricPoint]] = {}
    costs: list[float | None] = []
    for id in reversed(ids):
        try:
            rows: Sequence[Mapping[str, Any]] = merge_rows(await lab.prime.train_metrics(id))
            usage: Mapping[str, Any] = await lab.prime.train_usage(id)
        except LabError:
            rows, usage = (), {}
        series = EarlierRuns(series=series).joined(held_out_series(rows))
        costs.append(finite_number(usage.get("total_cost_usd")))
    known_costs = [cost for cost in costs if cost is not None]
    spend = sum(known_costs) if ids and len(known_costs) == len(costs) else None
    return EarlierRuns(tuple(ids), series, spend)
