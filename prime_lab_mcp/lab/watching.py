"""A training run as it stands: everything the platform says about it, and what stands out in it."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio

from prime_lab_mcp.lab import anomalies
from prime_lab_mcp.lab.anomalies import Anomaly
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import number
from prime_lab_mcp.lab.records import Run
from prime_lab_mcp.lab.run_metrics import reward as reward_metric
from prime_lab_mcp.lab.run_metrics import step_seconds
from prime_lab_mcp.lab.series import step_of

AT_ONCE = 3
"""Programs asked at the same time; each costs most of a second of one core."""
_NOT_STARTED = ("QUEUED", "PENDING")


@dataclass(frozen=True, slots=True)
class Watched:
    """`missing` names what the platform did not tell, with its error."""

    run: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    usage: Mapping[str, Any]
    checkpoints: Sequence[Mapping[str, Any]]
    progress: Mapping[str, Any]
    distribution: Mapping[str, Any]
    anomalies: tuple[Anomaly, ...]
    missing: Mapping[str, LabError]

    @property
    def status(self) -> str:
        return str(self.run.get("status") or "UNKNOWN").upper()

    @property
    def spend(self) -> float | None:
        """US dollars so far, as billed."""
        return number(self.usage.get("total_cost_usd"))

    @property
    def step(self) -> int | None:
        """Newest finished step."""
        steps = [s for row in self.rows[-1:] if (s := step_of(row)) is not None]
        latest = number(self.progress.get("latest_step"))
        return max([*steps, *([int(latest)] if latest is not None else [])], default=None)

    def burned_since(self, step: int) -> float | None:
        """US dollars spent since a step, by its share of the steps."""
        first = step_of(self.rows[0]) if self.rows else None
        if self.spend is None or self.step is None or first is None or self.step < first:
            return None
        share = (self.step - min(max(step, first), self.step) + 1) / (self.step - first + 1)
        return round(self.spend * share, 2)


async def watch(lab: Lab, id: str, known: Run | None) -> Watched:
    """Ask for everything at once. Raises PrimeError when not even the run itself can be read."""
    run = await lab.prime.train_get(id)
    status = str(run.get("status") or "").upper()
    if status in _NOT_STARTED:
        return Watched(run, [], {}, [], {}, {}, tuple(_queue(run)), {})
    found: dict[str, Any] = {}
    missing: dict[str, LabError] = {}
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def ask(name: str, question: Callable[[str], Awaitable[Any]]) -> None:
        async with limit:
            try:
                found[name] = await question(id)
            except LabError as error:
                missing[name] = error

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask, "metrics", lab.prime.train_metrics)
        asking.start_soon(ask, "usage", lab.prime.train_usage)
        asking.start_soon(ask, "checkpoints", lab.prime.train_checkpoints)
        if status in ("RUNNING", "PAUSING"):
            asking.start_soon(ask, "progress", lab.prime.train_progress)
        asking.start_soon(ask, "distribution", lab.prime.train_distributions)
    seen = Watched(
        run,
        found.get("metrics", []),
        found.get("usage", {}),
        found.get("checkpoints", []),
        found.get("progress", {}),
        found.get("distribution", {}),
        (),
        missing,
    )
    return Watched(
        run, seen.rows, seen.usage, seen.checkpoints, seen.progress, seen.distribution,
        tuple(_stand_out(seen, known)), missing,
    )  # fmt: skip


def _stand_out(seen: Watched, known: Run | None) -> list[Anomaly]:
    found = anomalies.find(seen.rows)
    if seen.status == "RUNNING":
        last = when(seen.progress.get("last_updated_at"))
        if last is not None:
            stalled = anomalies.stall(seen.step or 0, time.time() - last, step_seconds(seen.rows))
            found += [stalled] if stalled else []
    over = anomalies.overrun(seen.spend, known.max_cost if known else None, seen.step or 0)
    return ([over] if over else []) + found


def _queue(run: Mapping[str, Any]) -> list[Anomaly]:
    created = when(run.get("created_at"))
    waited = time.time() - created if created is not None else 0.0
    if waited < 1800:
        return []
    return [
        Anomaly(
            "queue", "warn", 0,
            f"it has waited {waited / 60:.0f} minutes for GPUs; nothing is billed meanwhile",
            "Wait, or stop it and submit with a GPU type that is available now (search_hub kind=gpu).",
        )
    ]  # fmt: skip


def recent(rows: Sequence[Mapping[str, Any]], count: int = 5) -> list[dict[str, Any]]:
    """The newest rows with the few numbers that a person looks at first."""
    wanted = {
        "reward": ("reward/mean", "train/agg/effective/agent/reward/mean"),
        "tokens": ("num_output_tokens/mean", "train/agg/effective/num_output_tokens/mean"),
        "truncated": ("is_truncated/mean", "train/agg/effective/agent/is_truncated/mean"),
        "errors": ("has_error/mean", "train/agg/all/agent/has_error/mean"),
        "no_gradient": ("zero_advantage/share",),
        "entropy": ("entropy/all/mean",),
        "grad_norm": ("optim/grad_norm",),
    }
    shown = []
    for row in rows[-count:]:
        values: dict[str, Any] = {"step": step_of(row)}
        for name, keys in wanted.items():
            value = next((v for key in keys if (v := number(row.get(key))) is not None), None)
            if value is not None and math.isfinite(value):
                values[name] = float(f"{value:.4g}")
        shown.append(values)
    return shown


def reward_story(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Where the mean reward began, where it is and where it was best."""
    points = reward_metric(rows).points
    if not points:
        return None
    best = max(points, key=lambda p: p[1])
    return {
        "first": round(points[0][1], 4), "now": round(points[-1][1], 4), "best": round(best[1], 4),
        "best_step": best[0],
    }  # fmt: skip


def when(value: Any) -> float | None:
    """Seconds since the epoch of a time as the platform or prime writes it."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
