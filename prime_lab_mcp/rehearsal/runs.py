"""Computes the state of a training run as a pure function of its record and the current time.

There is no background work, so a killed platform loses no progress and two processes agree. Times are rehearsal seconds
since creation: real seconds times the speed stored on the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from prime_lab_mcp.rehearsal.store import Body

Status = Literal["QUEUED", "PENDING", "RUNNING", "COMPLETED", "FAILED", "STOPPED", "PAUSING", "PAUSED"]
TERMINAL: frozenset[Status] = frozenset({"COMPLETED", "FAILED", "STOPPED", "PAUSED"})
RunFault = Literal[
    "no-signal",
    "collapse",
    "jump",
    "entropy",
    "off-policy",
    "length",
    "truncation",
    "gradient-nan",
    "errors",
    "dies-in-queue",
    "fails",
    "stall",
    "gaps",
    "queue",
    "proxy-gap",
    "format-plateau",
    "solved",
    "over-budget",
    "zero-output",
    "grad-spike",
]
RUN_FAULTS: tuple[RunFault, ...] = get_args(RunFault)
DEFAULT_ONSET = 5

QUEUE_SECONDS = 0.4
PENDING_SECONDS = 0.4
STEP_SECONDS = 0.25
"""A 20-step run takes about six seconds at speed 1."""
PAUSE_SECONDS = 0.4
BILLED_SECONDS_PER_STEP = 120.0
"""Billed length of a step in seconds, chosen so that prices and spend resemble those of a real run."""
OVER_BUDGET = 50
"""Cost factor of a step in a run with the fault `over-budget`."""
EMPTY_BATCHES = 10
"""Number of consecutive empty batches after which prime-rl stops (559b4477, orchestrator.py)."""
GPU_PRICES = {"H200_141GB": 3.5, "H100_80GB": 2.4, "A100_80GB": 1.4}
"""Invented prices in US dollars per GPU-hour."""


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run.

    `step` is the newest finished step, -1 before the first. Times are seconds since the epoch.
    """

    status: Status
    step: int
    started: float | None
    ended: float | None
    updated: float
    error: str | None = None

    @property
    def steps_done(self) -> int:
        return self.step + 1


def fault(run: Body, kind: RunFault) -> Body | None:
    fault: Body | None = run["faults"].get(kind)
    return fault


def onset(options: Body) -> int:
    """The first step of a fault."""
    return int(options.get("step", DEFAULT_ONSET))


def first_with(run: Body, kind: RunFault) -> int | None:
    """The first step at which a run has a fault; None if the run has no such fault."""
    options = fault(run, kind)
    return None if options is None else onset(options)


def checkpoint_interval(run: Body) -> int:
    """Steps between checkpoints; a run without a `ckpt` table writes only the last one."""
    settings = run["config"].get("ckpt")
    if not isinstance(settings, dict):
        return int(run["max_steps"] or 10**9)
    return max(1, int(settings.get("interval") or run["max_steps"] or 10**9))


def state(run: Body, now: float) -> RunState:
    """The state of the run at `now`."""
    return _Walk(run, now).state()


def cost(run: Body, at: RunState) -> float:
    """The cost of the run so far in US dollars."""
    steps = max(0, at.steps_done - int(run["first_step"]))
    if (dear := first_with(run, "over-budget")) is not None:
        steps += (OVER_BUDGET - 1) * max(0, at.steps_done - max(dear, int(run["first_step"])))
    hours = steps * BILLED_SECONDS_PER_STEP / 3600
    return float(round(hours * run["gpu_count"] * run["price_per_gpu_hour"], 4))


class _Walk:
    """Follows a run from its creation through its control events."""

    def __init__(self, run: Body, now: float) -> None:
        self.run = run
        self.speed = float(run["speed"])
        self.elapsed = (now - run["created"]) * self.speed
        queue = QUEUE_SECONDS
        if (waits := fault(run, "queue")) is not None:
            queue += float(waits.get("seconds", 30))
        self.queue = queue
        self.begin = queue + PENDING_SECONDS
        self.first_begin = self.begin
        self.base = int(run["first_step"])

    def state(self) -> RunState:
        for event in self.run["events"]:
            at = (event["at"] - self.run["created"]) * self.speed
            if at > self.elapsed:
                break
            ended = self._ended_by(at)
            if ended is not None:
                return ended
            if event["kind"] == "stop":
                return self._at("STOPPED", at, ended=at)
            if event["kind"] == "pause":
                done = at + PAUSE_SECONDS
                if self.elapsed >= done:
                    return self._at("PAUSED", at, ended=done)
                return self._at("PAUSING", at)
            interval = checkpoint_interval(self.run)
            self.base = max(int(self.run["first_step"]), self._done(at) // interval * interval)
            self.begin = at + PENDING_SECONDS
        ended = self._ended_by(self.elapsed)
        if ended is not None:
            return ended
        if self.elapsed < self.queue:
            return self._at("QUEUED", self.elapsed)
        if self.elapsed < self.begin:
            return self._at("PENDING", self.elapsed)
        return self._at("RUNNING", self.elapsed)

    def _done(self, at: float) -> int:
        """Number of finished steps at a time."""
        if at < self.begin:
            return self.base
        # The small amount prevents rounding below a step's end at exactly that time.
        done = self.base + math.floor((at - self.begin) / STEP_SECONDS + 1e-9)
        if (stalls := fault(self.run, "stall")) is not None:
            done = min(done, max(self.base, onset(stalls)))
        if (mute := first_with(self.run, "zero-output")) is not None:
            done = min(done, max(self.base, mute))
        if limit := self.run["max_steps"]:
            done = min(done, int(limit))
        return done

    def _ended_by(self, at: float) -> RunState | None:
        if fault(self.run, "dies-in-queue") is not None and at >= 3 * self.queue:
            return self._at("FAILED", 3 * self.queue, ended=3 * self.queue, error=NO_CAPACITY)
        if (breaks := fault(self.run, "fails")) is not None:
            step = max(self.base, onset(breaks))
            end = self.begin + (step - self.base) * STEP_SECONDS
            if at >= end:
                return self._at("FAILED", end, ended=end, error=failure(self.run, step))
        if (mute := first_with(self.run, "zero-output")) is not None:
            end = self.begin + (max(self.base, mute) - self.base + EMPTY_BATCHES) * STEP_SECONDS
            if at >= end:
                return self._at("FAILED", end, ended=end, error=NOTHING_TO_TRAIN_ON)
            return None
        limit = self.run["max_steps"]
        if limit and fault(self.run, "stall") is None:
            end = self.begin + (int(limit) - self.base) * STEP_SECONDS
            if at >= end:
                return self._at("COMPLETED", end, ended=end)
        return None

    def _at(
        self,
        status: Status,
        at: float,
        *,
        ended: float | None = None,
        error: str | None = None,
    ) -> RunState:
        never = fault(self.run, "dies-in-queue") is not None
        started = self.first_begin if at >= self.first_begin and not never else None
        step = -1 if never else self._done(at) - 1
        done_at = self.begin + max(0, step + 1 - self.base) * STEP_SECONDS
        return RunState(
            status,
            step,
            self._real(started),
            self._real(ended),
            updated=self._real(ended if ended is not None else min(at, max(0.0, done_at))) or 0.0,
            error=error,
        )

    def _real(self, elapsed: float | None) -> float | None:
        return None if elapsed is None else float(self.run["created"] + elapsed / self.speed)


NOTHING_TO_TRAIN_ON = (
    f"rehearsal: {EMPTY_BATCHES} consecutive empty train batches — check algorithm credit and task difficulty."
)
NO_CAPACITY = "rehearsal: no capacity for this GPU type became free; the run left the queue"


def idle(run: Body, at: RunState, now: float) -> float:
    """Seconds since the newest step ended, on the scale by which steps are billed."""
    return max(0.0, now - at.updated) * float(run["speed"]) * BILLED_SECONDS_PER_STEP / STEP_SECONDS


def empty_batches(run: Body, at: RunState, now: float) -> int:
    """Number of consecutive batches without a trainable rollout, up to now or to the run's end."""
    mute = first_with(run, "zero-output")
    if mute is None or at.started is None or at.steps_done < mute:
        return 0
    until = at.ended if at.ended is not None else now
    since = at.started + (max(mute, int(run["first_step"])) - int(run["first_step"])) * STEP_SECONDS / float(
        run["speed"]
    )
    return min(EMPTY_BATCHES, max(0, math.floor((until - since) * float(run["speed"]) / STEP_SECONDS + 1e-9)))


def failure(run: Body, step: int) -> str:
    """The error message of a failed run, by the cause in its fault."""
    causes: dict[str, str] = {
        "out-of-memory": "CUDA out of memory in the trainer",
        "environment": "the environment server raised ModuleNotFoundError: No module named 'sympy'",
    }
    cause: Any = (fault(run, "fails") or {}).get("cause", "out-of-memory")
    return f"rehearsal: {causes.get(str(cause), str(cause))} at step {step}"
