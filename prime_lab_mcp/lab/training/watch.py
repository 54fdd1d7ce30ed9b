"""Reads the present state of a training run from the platform and finds anomalies. Nothing here changes the run.

`change_token` needs the fewest requests: it returns a short text that changes with the state of a run or evaluation.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import finite_or_none
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training import anomalies
from prime_lab_mcp.lab.training.anomalies import Anomaly
from prime_lab_mcp.lab.training.metrics import merge_rows, step_of, step_seconds
from prime_lab_mcp.lab.training.summary import expected_spend

CONCURRENT_QUESTIONS = 3
"""Number of `prime` programs that run at the same time. Each needs most of a second of one core."""
LOG_LINES = 200
"""Number of the newest log lines that are read. Without a search, the platform serves no more."""
SAMPLED_ROLLOUTS = 100
"""Number of rollouts of a step that are read."""
_ENDED = frozenset({"COMPLETED", "FAILED", "STOPPED"})
_NOT_STARTED = ("QUEUED", "PENDING")
_TRAINER = re.compile(r"trainer|cuda|out of memory|nccl|gradient", re.I)
_ENVIRONMENT = re.compile(r"environment|env[- ]server|ModuleNotFound", re.I)


@dataclass(frozen=True, slots=True)
class RunReading:
    """The state of a run. `missing` has the error for each part that the platform did not send, and `logs` the newest
    lines by component."""

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
    price_per_hour: float | None = None
    """US dollars per hour at which the run was started; None for a run of others."""

    @property
    def status(self) -> str:
        return str(self.run.get("status") or "UNKNOWN").upper()

    @property
    def spend(self) -> float | None:
        """US dollars billed so far."""
        return finite_number(self.usage.get("total_cost_usd"))

    @property
    def step(self) -> int | None:
        """The newest finished step."""
        steps = [s for row in self.rows[-1:] if (s := step_of(row)) is not None]
        latest = finite_number(self.progress.get("latest_step"))
        return max([*steps, *([int(latest)] if latest is not None else [])], default=None)

    @property
    def max_steps(self) -> int | None:
        value = finite_number(self.run.get("max_steps"))
        return int(value) if value is not None else None

    @property
    def idle(self) -> float | None:
        """Seconds since a running run finished its newest step."""
        last = seconds_of_time(self.progress.get("last_updated_at")) if self.status == "RUNNING" else None
        return time.time() - last if last is not None else None

    @property
    def expected(self) -> float | None:
        """Expected US dollars for the whole run; None unless the run is active.

        What `eta` says is billed at the price of the run, so that both are one forecast. Without either, the steps to
        come cost what those so far did.
        """
        going = self.status in ("RUNNING", "PAUSING")
        at_this_pace = expected_spend(self.rows, self.step, self.max_steps, self.spend) if going else None
        if at_this_pace is None or self.spend is None or self.eta is None or self.price_per_hour is None:
            return at_this_pace
        return self.spend + self.eta / 3600 * self.price_per_hour

    @property
    def eta(self) -> float | None:
        """Seconds until the last step, at the pace of the newest steps."""
        pace = step_seconds(self.rows)
        if self.status != "RUNNING" or pace is None or self.step is None or self.max_steps is None:
            return None
        return max(0, self.max_steps - self.step - 1) * pace

    def spent_since(self, step: int) -> float | None:
        """Estimated US dollars spent since a step: the spend times the share of steps since then."""
        first = step_of(self.rows[0]) if self.rows else None
        if self.spend is None or self.step is None or first is None or self.step < first:
            return None
        share = (self.step - min(max(step, first), self.step) + 1) / (self.step - first + 1)
        return round(self.spend * share, 2)


async def watch_run(
    lab: Lab, id: str, recorded: Run | None, step: int | None = None, *, count_cost: bool = True
) -> RunReading:
    """Read all parts of a run concurrently, with the rollouts of a step (by default the newest step with samples).

    If the run ended or exceeded its bound, its actual cost is written to the ledger. `count_cost=False` prevents this,
    for callers that must not write. Raises PrimeError if the run itself cannot be read.
    """
    run = await lab.prime.train_get(id)
    if str(run.get("status") or "").upper() in _NOT_STARTED:
        return RunReading(run, [], {}, [], {}, {}, tuple(_queue_anomalies(run)), {})
    first = _Requests(id)
    await first.ask(
        metrics=lab.prime.train_metrics,
        usage=lab.prime.train_usage,
        checkpoints=lab.prime.train_checkpoints,
        progress=lab.prime.train_progress,
        distribution=lab.prime.train_distributions,
    )
    replies = first.replies
    reading = RunReading(
        run,
        merge_rows(replies.get("metrics", [])),
        replies.get("usage", {}),
        replies.get("checkpoints", []),
        replies.get("progress", {}),
        replies.get("distribution", {}),
        (),
        first.missing,
        price_per_hour=recorded.price_per_hour if recorded is not None else None,
    )
    if count_cost:
        _correct_reservation(lab, reading, recorded)
    reading = replace(reading, anomalies=tuple(_metric_anomalies(reading, recorded)))
    second = _Requests(id)
    await second.ask(**_follow_up_requests(lab, reading, step))
    logs = {name: text for name, text in second.replies.items() if name != "rollouts"}
    reading = replace(
        reading, rollouts=second.replies.get("rollouts", {}), logs=logs, missing=first.missing | second.missing
    )
    return replace(reading, anomalies=tuple(anomalies.rank_anomalies([*_log_anomalies(reading), *reading.anomalies])))


def note_ended(lab: Lab, run: Run | None, status: str) -> None:
    """Record that a run was seen at its end, so that it is no run any more that may cost something."""
    if run is not None and status in _ENDED and run.data.get("ended") != status:
        lab.ledger.record_run(replace(run, data={**run.data, "ended": status}))


def _correct_reservation(lab: Lab, reading: RunReading, run: Run | None) -> None:
    """Replace the reserved bound by the actual cost, if the run ended or paused or has cost more than was reserved."""
    note_ended(lab, run, reading.status)
    if run is None or not reading.spend:
        return
    exceeded = run.max_cost is not None and reading.spend > run.max_cost
    if exceeded or reading.status in (*_ENDED, "PAUSED"):  # what continues a paused run is a run of its own
        lab.ledger.correct(run.intent, lab.platform, reading.spend)


class _Requests:
    """Sends requests, a few at a time. Answers go to `replies`, failures to `missing`."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.replies: dict[str, Any] = {}
        self.missing: dict[str, LabError] = {}

    async def ask(self, **questions: Callable[[str], Awaitable[Any]]) -> None:
        limit = anyio.CapacityLimiter(CONCURRENT_QUESTIONS)

        async def one(name: str, question: Callable[[str], Awaitable[Any]]) -> None:
            async with limit:
                try:
                    self.replies[name] = await question(self.id)
                except LabError as error:
                    self.missing[name] = error

        async with anyio.create_task_group() as asking:
            for name, question in questions.items():
                asking.start_soon(one, name, question)


def _follow_up_requests(lab: Lab, reading: RunReading, step: int | None) -> dict[str, Callable[[str], Awaitable[Any]]]:
    """The requests that depend on the first answers: rollouts, and the logs of components that may be at fault."""
    requests: dict[str, Callable[[str], Awaitable[Any]]] = {}
    sampled = [int(s) for s in reading.progress.get("steps_with_samples") or () if finite_number(s) is not None]
    at = step if step is not None else max(sampled, default=None)
    if at is not None:
        requests["rollouts"] = lambda id: lab.prime.train_rollouts(id, at, limit=SAMPLED_ROLLOUTS)
    for component in _components_to_read(reading):
        requests[component] = _log_request(lab, reading, component)
    return requests


def _log_request(lab: Lab, reading: RunReading, component: str) -> Callable[[str], Awaitable[str]]:
    environment = _served_name(reading) if component == "env-server" else None
    return lambda id: lab.prime.train_logs(id, component, LOG_LINES, environment)


def _served_name(reading: RunReading) -> str | None:
    """The name under which the first environment's server logs: without owner and version."""
    listed = [e for e in reading.run.get("environments") or () if isinstance(e, dict)]
    name = str((listed[0].get("name") or listed[0].get("id") or "") if listed else "")
    return name.partition("@")[0].rpartition("/")[2] or None


def _components_to_read(reading: RunReading) -> list[str]:
    """The components whose logs may explain a fault.

    A run that never started has no logs, and `prime` would wait minutes for them.
    """
    if reading.run.get("started_at") is None:
        return []
    components: list[str] = []
    if reading.status == "FAILED":
        message = str(reading.run.get("error_message") or "")
        blamed = (
            "trainer" if _TRAINER.search(message) else "env-server" if _ENVIRONMENT.search(message) else "orchestrator"
        )
        components.append(blamed)
    if any(a.code == "errors" for a in reading.anomalies):
        components.append("env-server")
    slow = reading.idle is not None and reading.idle > 2 * (step_seconds(reading.rows) or anomalies.USUAL_STEP_SECONDS)
    if slow and "orchestrator" not in components:
        components.append("orchestrator")
    return list(dict.fromkeys(components))


def _log_anomalies(reading: RunReading) -> list[Anomaly]:
    anomaly = anomalies.empty_batches(reading.logs.get("orchestrator", ""), reading.step or 0)
    return [anomaly] if anomaly and not any(a.code == anomaly.code for a in reading.anomalies) else []


def _metric_anomalies(reading: RunReading, run: Run | None) -> list[Anomaly]:
    listed = anomalies.find_anomalies(reading.rows)
    if reading.idle is not None:
        stalled = anomalies.stall(reading.step or 0, reading.idle, step_seconds(reading.rows))
        listed += [stalled] if stalled else []
    likely = likely_dollars(run)
    dear = likely[2] if likely else None
    over = anomalies.overrun(reading.spend, run.max_cost if run else None, reading.step or 0, reading.expected, dear)
    return ([over] if over else []) + listed


def likely_dollars(run: Run | None) -> tuple[float, float, float] | None:
    """The range of the likely cost of a run as its question named it: cheapest, expected and dearest case."""
    forecast = (run.data.get("card") or run.data).get("forecast") if run is not None else None
    dollars = forecast.get("dollars") if isinstance(forecast, Mapping) else None
    if not isinstance(dollars, Mapping):
        return None
    values = [finite_or_none(dollars.get(name)) for name in ("low", "expected", "high")]
    low, expected, high = values
    return None if low is None or expected is None or high is None else (low, expected, high)


def _queue_anomalies(run: Mapping[str, Any]) -> list[Anomaly]:
    created = seconds_of_time(run.get("created_at"))
    anomaly = anomalies.long_queue(time.time() - created) if created is not None else None
    return [anomaly] if anomaly else []


def seconds_of_time(value: Any) -> float | None:
    """Convert a time as the platform or `prime` writes it to seconds since the epoch; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_ADDRESS = re.compile(r"lab://(?:runs/([^/?#]+)|evals/([^/?#]+)/report(?:\.html)?)")
_WAITING = ("QUEUED", "PENDING")


async def change_token(lab: Lab, address: str) -> str | None:
    """A text that changes with the state of `lab://runs/ID` or `lab://evals/ID/report`.

    None for an address that never changes, and while the platform cannot be reached.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return None
    if match[2] is not None or lab.ledger.job(match[1]) is not None:
        return _job_token(lab, match[2] or match[1])
    try:
        run = await lab.prime.train_get(match[1])
        status = str(run.get("status") or "UNKNOWN").upper()
        if status in _WAITING:
            return f"{status} {run.get('runs_ahead')}"
        step = (await lab.prime.train_progress(match[1])).get("latest_step") if status == "RUNNING" else None
    except LabError as error:
        return "DELETED" if error.code == "platform-not-found" else None
    return f"{status} {step}"


def _job_token(lab: Lab, id: str) -> str | None:
    from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs

    try:
        job = EvaluationJobs(lab).get(id)
    except LabError:
        return None
    return f"{job.state} {job.progress.get('completed')}"
