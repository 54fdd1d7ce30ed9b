"""What the page shows of training runs: the list from the ledger, and one run as the platform tells it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import anyio

from prime_lab_mcp.dashboard.evaluations import foreign
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import finite_or_none, quote, rounded
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training.metrics import (
    MetricPoint,
    entropy_series,
    error_series,
    held_out_series,
    mismatch_series,
    reward_series,
    silent_group_series,
    token_series,
    truncation_series,
)
from prime_lab_mcp.lab.training.watch import RunReading, watch_run

LIVE_SECONDS, ENDED_SECONDS = 8.0, 120.0
"""How long a reading of a run is shown again. Each takes about six starts of `prime`, so all viewers share one."""
_MOST_POINTS = 600
_SERIES = {
    "reward": ("Training reward", reward_series),
    "tokens": ("Completion tokens", token_series),
    "silent": ("Share of groups without a gradient", silent_group_series),
    "entropy": ("Entropy", entropy_series),
    "truncated": ("Share cut off", truncation_series),
    "errors": ("Share with errors", error_series),
    "mismatch": ("Trainer and inference mismatch (KL)", mismatch_series),
}


class _RunReadings:
    """The last reading of each run, with its time, and a lock for each so that it is read once for all viewers."""

    def __init__(self) -> None:
        self.by_id: dict[str, tuple[float, RunReading]] = {}
        self.locks: dict[str, anyio.Lock] = {}


def list_runs(lab: ReadingLab) -> list[dict[str, Any]]:
    """Training runs that were started from this workspace, newest first, as the ledger knows them."""
    return [_row(run) for run in lab.ledger.runs(workspace=lab.key, platform=lab.platform, kind="training")]


def _row(run: Run) -> dict[str, Any]:
    environments = run.data.get("environments")
    return {
        "id": run.id,
        "name": foreign(run.name, 120),
        "at": run.at,
        "model": foreign(run.data.get("model") or "", 120),
        "environments": [foreign(name, 120) for name in dict.fromkeys(environments)]
        if isinstance(environments, list)
        else [],
        "max_steps": run.data.get("max_steps"),
        "price_per_hour": finite_or_none(run.price_per_hour),
        "bound": finite_or_none(run.max_cost),
        "config": run.config_path,
        "resumed_from": run.data.get("resumed_from"),
    }


async def training_run(lab: ReadingLab, id: str) -> dict[str, Any]:
    """One run: what was submitted, and its state, curves, anomalies, checkpoints and cost now. Raises LabError."""
    known = next(iter(lab.ledger.runs(id=id, platform=lab.platform, workspace=lab.key, kind="training")), None)
    if known is None:
        raise BadInput(
            f"no training run {quote(id, 80)} was started from this workspace",
            fix="Choose one of the list.",
            code="run-not-found",
        )
    reading = await _read(lab, known)
    return _row(known) | {
        "status": reading.status,
        "step": reading.step,
        "max_steps": reading.max_steps,
        "eta_seconds": rounded(reading.eta, 0),
        "spend": rounded(reading.spend, 2),
        "expected_spend": rounded(reading.expected, 2),
        "failure": foreign(reading.run.get("error_message"), 2000) if reading.run.get("error_message") else None,
        "series": _series(reading),
        "anomalies": [
            anomaly.as_json() | {"burned": reading.spent_since(anomaly.since_step)} for anomaly in reading.anomalies
        ],
        "checkpoints": [
            {"step": c.get("step"), "id": foreign(c.get("id") or "", 80), "status": foreign(c.get("status") or "", 40)}
            for c in reading.checkpoints
        ],
        "missing": {
            name: error.message for name, error in reading.missing.items() if error.code != "platform-not-found"
        },
        "live": reading.status not in ("COMPLETED", "FAILED", "STOPPED", "PAUSED"),
    }


async def _read(lab: ReadingLab, known: Run) -> RunReading:
    readings = lab.memory(_RunReadings)
    async with readings.locks.setdefault(known.id, anyio.Lock()):
        at, reading = readings.by_id.get(known.id, (0.0, None))
        ended = reading is not None and reading.status in ("COMPLETED", "FAILED", "STOPPED")
        if reading is None or time.monotonic() - at > (ENDED_SECONDS if ended else LIVE_SECONDS):
            reading = await watch_run(lab, known.id, known, count_cost=False)
            readings.by_id[known.id] = (time.monotonic(), reading)
        return reading


def _series(reading: RunReading) -> list[dict[str, Any]]:
    """Every metric that has points, the held-out rewards beside the training reward first."""
    listed: list[dict[str, Any]] = []
    for name, (title, series) in _SERIES.items():
        points = series(reading.rows).points
        if points:
            listed.append({"name": name, "title": title, "points": _thinned(points)})
    held_out: Mapping[str, Any] = held_out_series(reading.rows)
    for source, points in held_out.items():
        listed.append(
            {"name": f"held-out {source}", "title": f"Held out: {foreign(source, 60)}", "points": _thinned(points)}
        )
    return listed


def _thinned(points: list[MetricPoint]) -> list[list[float]]:
    """At most a few hundred points, evenly spaced, with the last one."""
    step = max(1, -(-len(points) // _MOST_POINTS))
    chosen = points[::step]
    if points and chosen[-1] != points[-1]:
        chosen = [*chosen, points[-1]]
    return [[at, float(f"{value:.5g}")] for at, value in chosen]
