"""A training run as it stands: everything the platform says about it, and what stands out in it. Looks, never acts."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import anyio

from prime_lab_mcp.lab import anomalies
from prime_lab_mcp.lab.anomalies import Anomaly
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import number
from prime_lab_mcp.lab.records import Run
from prime_lab_mcp.lab.run_metrics import held_out, step_seconds
from prime_lab_mcp.lab.run_story import expected, recent, reward_story
from prime_lab_mcp.lab.series import merged, step_of

__all__ = ["AT_ONCE", "Watched", "held_out", "recent", "reward_story", "watch", "when"]

AT_ONCE = 3
"""Programs asked at the same time; each costs most of a second of one core."""
LOG_LINES = 200
"""Newest lines of a log; the platform serves no more without searching."""
SAMPLES = 100
"""Rollouts of a step that are looked at."""
_NOT_STARTED = ("QUEUED", "PENDING")
_TRAINER = re.compile(r"trainer|cuda|out of memory|nccl|gradient", re.I)
_ENVIRONMENT = re.compile(r"environment|env[- ]server|ModuleNotFound", re.I)


@dataclass(frozen=True, slots=True)
class Watched:
    """`missing` names what the platform did not tell, with its error. `logs`: newest lines by component."""

    run: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    usage: Mapping[str, Any]
    checkpoints: Sequence[Mapping[str, Any]]
    progress: Mapping[str, Any]
    distribution: Mapping[str, Any]
    anomalies: tuple[Anomaly, ...]
    missing: Mapping[str, LabError]
    rollouts: Mapping[str, Any] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)

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

    @property
    def max_steps(self) -> int | None:
        value = number(self.run.get("max_steps"))
        return int(value) if value is not None else None

    @property
    def idle(self) -> float | None:
        """Seconds since the newest step ended, of a running run."""
        last = when(self.progress.get("last_updated_at")) if self.status == "RUNNING" else None
        return time.time() - last if last is not None else None

    @property
    def expected(self) -> float | None:
        """US dollars that a going run will have cost at its end, at its pace so far."""
        going = self.status in ("RUNNING", "PAUSING")
        return expected(self.rows, self.step, self.max_steps, self.spend) if going else None

    @property
    def eta(self) -> float | None:
        """Seconds until the last step, at the pace of the newest ones."""
        pace = step_seconds(self.rows)
        if self.status != "RUNNING" or pace is None or self.step is None or self.max_steps is None:
            return None
        return max(0, self.max_steps - self.step - 1) * pace

    def burned_since(self, step: int) -> float | None:
        """US dollars spent since a step, by its share of the steps."""
        first = step_of(self.rows[0]) if self.rows else None
        if self.spend is None or self.step is None or first is None or self.step < first:
            return None
        share = (self.step - min(max(step, first), self.step) + 1) / (self.step - first + 1)
        return round(self.spend * share, 2)


async def watch(lab: Lab, id: str, known: Run | None, step: int | None = None) -> Watched:
    """Ask for everything at once, with the rollouts of a step (the newest kept where None).

    Raises PrimeError when not even the run itself can be read.
    """
    run = await lab.prime.train_get(id)
    if str(run.get("status") or "").upper() in _NOT_STARTED:
        return Watched(run, [], {}, [], {}, {}, tuple(_queue(run)), {})
    first = _Questions(id)
    await first.ask(
        metrics=lab.prime.train_metrics,
        usage=lab.prime.train_usage,
        checkpoints=lab.prime.train_checkpoints,
        progress=lab.prime.train_progress,
        distribution=lab.prime.train_distributions,
    )
    found = first.found
    seen = Watched(
        run, merged(found.get("metrics", [])), found.get("usage", {}), found.get("checkpoints", []),
        found.get("progress", {}), found.get("distribution", {}), (), first.missing,
    )  # fmt: skip
    seen = replace(seen, anomalies=tuple(_stand_out(seen, known)))
    second = _Questions(id)
    await second.ask(**_closer(lab, seen, step))
    logs = {name: text for name, text in second.found.items() if name != "rollouts"}
    seen = replace(seen, rollouts=second.found.get("rollouts", {}), logs=logs, missing=first.missing | second.missing)
    return replace(seen, anomalies=tuple(anomalies.ranked([*_told_by_logs(seen), *seen.anomalies])))


class _Questions:
    """Programs asked a few at a time; what fails is kept beside what answers."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.found: dict[str, Any] = {}
        self.missing: dict[str, LabError] = {}

    async def ask(self, **questions: Callable[[str], Awaitable[Any]]) -> None:
        limit = anyio.CapacityLimiter(AT_ONCE)

        async def one(name: str, question: Callable[[str], Awaitable[Any]]) -> None:
            async with limit:
                try:
                    self.found[name] = await question(self.id)
                except LabError as error:
                    self.missing[name] = error

        async with anyio.create_task_group() as asking:
            for name, question in questions.items():
                asking.start_soon(one, name, question)


def _closer(lab: Lab, seen: Watched, step: int | None) -> dict[str, Callable[[str], Awaitable[Any]]]:
    """What the first answers make worth asking: rollouts, and logs where something is wrong."""
    asked: dict[str, Callable[[str], Awaitable[Any]]] = {}
    kept = [int(s) for s in seen.progress.get("steps_with_samples") or () if number(s) is not None]
    at = step if step is not None else max(kept, default=None)
    if at is not None:
        asked["rollouts"] = lambda id: lab.prime.train_rollouts(id, at, limit=SAMPLES)
    for component in _components(seen):
        asked[component] = _log(lab, seen, component)
    return asked


def _log(lab: Lab, seen: Watched, component: str) -> Callable[[str], Awaitable[str]]:
    environment = _served(seen) if component == "env-server" else None
    return lambda id: lab.prime.train_logs(id, component, LOG_LINES, environment)


def _served(seen: Watched) -> str | None:
    """The name under which the first environment's server logs: without owner and version."""
    listed = [e for e in seen.run.get("environments") or () if isinstance(e, dict)]
    told = str((listed[0].get("name") or listed[0].get("id") or "") if listed else "")
    return told.partition("@")[0].rpartition("/")[2] or None


def _components(seen: Watched) -> list[str]:
    """Whose log to read. prime waits minutes for the log of a run that never started, so those are left out."""
    if seen.run.get("started_at") is None:
        return []
    wanted: list[str] = []
    if seen.status == "FAILED":
        said = str(seen.run.get("error_message") or "")
        blamed = "trainer" if _TRAINER.search(said) else "env-server" if _ENVIRONMENT.search(said) else "orchestrator"
        wanted.append(blamed)
    if any(a.code == "errors" for a in seen.anomalies):
        wanted.append("env-server")
    slow = seen.idle is not None and seen.idle > 2 * (step_seconds(seen.rows) or anomalies.USUAL_STEP)
    if slow and "orchestrator" not in wanted:
        wanted.append("orchestrator")
    return list(dict.fromkeys(wanted))


def _told_by_logs(seen: Watched) -> list[Anomaly]:
    found = anomalies.empty_batches(seen.logs.get("orchestrator", ""), seen.step or 0)
    return [found] if found and not any(a.code == found.code for a in seen.anomalies) else []


def _stand_out(seen: Watched, known: Run | None) -> list[Anomaly]:
    found = anomalies.find(seen.rows)
    if seen.idle is not None:
        stalled = anomalies.stall(seen.step or 0, seen.idle, step_seconds(seen.rows))
        found += [stalled] if stalled else []
    over = anomalies.overrun(seen.spend, known.max_cost if known else None, seen.step or 0, seen.expected)
    return ([over] if over else []) + found


def _queue(run: Mapping[str, Any]) -> list[Anomaly]:
    created = when(run.get("created_at"))
    found = anomalies.queue(time.time() - created) if created is not None else None
    return [found] if found else []


def when(value: Any) -> float | None:
    """Seconds since the epoch of a time as the platform or prime writes it."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
