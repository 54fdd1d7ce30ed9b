"""What the page shows of training runs: hosted ones by ledger and platform, self-managed ones by their files."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import anyio

from prime_lab_mcp.dashboard.evaluations import foreign
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.text import finite_or_none, quote, rounded
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training import own_runs
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
_MOST_OWN = 50
"""Self-managed runs that are listed."""
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
        self.locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()


def list_runs(lab: ReadingLab) -> list[dict[str, Any]]:
    """Training runs of this workspace, newest first: those submitted from here, and self-managed ones in `outputs/`.

    The status of a run is that which it ended with, or of its last reading on this page; None where neither is known.
    """
    read = lab.memory(_RunReadings).by_id
    hosted = [_row(run) for run in lab.ledger.runs(workspace=lab.key, platform=lab.platform, kind="training")]
    own = []
    for listed in own_runs.list_own_runs(lab.workspace, _MOST_OWN):
        with suppress(LabError, OSError):  # what is no folder of the workspace, or changes now, hides no other run
            own.append(_own_row(lab, listed["id"]))
    for row in (*hosted, *own):
        if row["status"] is None and row["id"] in read:
            row["status"] = read[row["id"]][1].status
    return sorted([*hosted, *own], key=lambda row: float(row["at"]), reverse=True)


def _own_row(lab: ReadingLab, id: str) -> dict[str, Any]:
    folder = own_runs.require_own_run(lab.workspace, id)
    config = own_runs.own_run_config(folder)
    model, most = config.get("base_model"), config.get("max_steps")
    return {
        "id": id,
        "name": foreign(folder.name, 120),
        "at": (folder / own_runs.METRICS).stat().st_mtime,
        "model": foreign(model, 120) if isinstance(model, str) else "",
        "environments": [foreign(one["id"], 120) for one in config.get("environments", ())],
        "max_steps": most if isinstance(most, int) else None,
        "price_per_hour": None,
        "bound": None,
        "config": None,
        "resumed_from": None,
        "status": None,
    }


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
        "status": foreign(run.data["ended"], 40) if run.data.get("ended") else None,
    }


async def training_run(lab: ReadingLab, id: str) -> dict[str, Any]:
    """One run: what was submitted, and its state, curves, anomalies, checkpoints and cost now. Raises LabError."""
    if id.startswith(f"{own_runs.OUTPUTS}/"):
        folder = own_runs.require_own_run(lab.workspace, id)
        reading = await _shared(lab, id, lambda: anyio.to_thread.run_sync(own_runs.read_own_run, folder))
        return _shown(_own_row(lab, id), reading, done=reading.step)
    known = next(iter(lab.ledger.runs(id=id, platform=lab.platform, workspace=lab.key, kind="training")), None)
    if known is None:
        raise BadInput(
            f"no training run {quote(id, 80)} was started from this workspace",
            fix="Choose one of the list.",
            code="run-not-found",
        )
    reading = await _shared(lab, id, lambda: watch_run(lab, known.id, known, count_cost=False))
    return _shown(_row(known), reading, done=None if reading.step is None else reading.step + 1)


def _shown(row: dict[str, Any], reading: RunReading, *, done: int | None) -> dict[str, Any]:
    """The row of a run with what was read of it. Hosted runs count their steps from 0, self-managed ones from 1."""
    return row | {
        "status": reading.status,
        "step": reading.step,
        "steps_done": done or 0,
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


async def _shared(lab: ReadingLab, id: str, read: Callable[[], Awaitable[RunReading]]) -> RunReading:
    """The last reading of a run, or a new one where that is old."""
    readings = lab.memory(_RunReadings)
    async with readings.locks.setdefault(id, anyio.Lock()):
        at, reading = readings.by_id.get(id, (0.0, None))
        ended = reading is not None and reading.status in ("COMPLETED", "FAILED", "STOPPED")
        if reading is None or time.monotonic() - at > (ENDED_SECONDS if ended else LIVE_SECONDS):
            reading = await read()
            readings.by_id[id] = (time.monotonic(), reading)
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
