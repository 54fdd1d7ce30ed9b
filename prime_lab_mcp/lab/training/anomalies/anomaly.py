"""Defines an anomaly of a training run, and finds the anomalies of its operation.

These are a stall, a cost above the agreed bound, a long queue, and empty batches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class AnomalyEvidence:
    """The metric that shows an anomaly, its present level, and the threshold that the level has passed."""

    metric: str
    value: float | None
    threshold: float

    def as_json(self) -> dict[str, Any]:
        value = None if self.value is None else float(f"{self.value:.4g}")
        return {"metric": self.metric, "value": value, "threshold": float(f"{self.threshold:.4g}")}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A fault in a run, since `since_step`. Level `stop` advises to stop the run and investigate."""

    code: str
    level: Literal["warn", "stop"]
    since_step: int
    cause: str
    advice: str
    evidence: AnomalyEvidence | None = None

    def as_json(self) -> dict[str, Any]:
        fields = {
            "code": self.code,
            "level": self.level,
            "since_step": self.since_step,
            "cause": self.cause,
            "advice": self.advice,
        }
        return fields | ({"evidence": self.evidence.as_json()} if self.evidence else {})


def rank_anomalies(anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    """Sort anomalies: level `stop` first, then the earliest."""
    return sorted(anomalies, key=lambda a: (a.level != "stop", a.since_step))


STALL_SECONDS, STALL_TIMES, STALL_SEVERE = 600.0, 5.0, 3.0
"""A run stalls if no step finishes for at least `STALL_SECONDS` and `STALL_TIMES` times the usual step. At
`STALL_SEVERE` times that limit the level is `stop`. These numbers are our judgement."""
USUAL_STEP_SECONDS = 360.0
"""Assumed seconds of a step if the run reports no step time. The cost bound uses the same estimate."""
QUEUED_SECONDS = 1800.0
"""Seconds in the queue after which another GPU type is suggested. This number is our judgement."""
EMPTY_BATCHES = 3
"""Number of consecutive empty batches at which the level becomes `stop`. prime-rl 559b4477 gives up after ten."""
_EMPTY_BATCH = re.compile(
    r"(?:empty train batch|No admitted train payload)[^\n]{0,200}?"
    r"\(consecutive (?:empty batches|zero-output batch equivalents):\s*(\d+)/(\d+)\)"
)


def stall(last_step: int, idle_seconds: float, step_seconds: float | None) -> Anomaly | None:
    """Report a running run that finishes no step. `idle_seconds` counts from the last finished step."""
    usual = step_seconds or USUAL_STEP_SECONDS
    limit = max(STALL_SECONDS, STALL_TIMES * usual)
    if idle_seconds <= limit:
        return None
    severe = idle_seconds > STALL_SEVERE * limit
    return Anomaly(
        "stall",
        "stop" if severe else "warn",
        max(0, last_step),
        f"no step ended for {idle_seconds / 60:.0f} minutes; one usually takes {usual / 60:.1f}",
        "Look at the logs of the env-server and inference; control_run restart goes on from the last checkpoint.",
        AnomalyEvidence("seconds since the last step", idle_seconds, STALL_SEVERE * limit if severe else limit),
    )


BEYOND_LIKELY = 2.0
"""A run whose cost is above this many times the upper end of the likely cost is an anomaly (our judgement)."""


def overrun(
    spend: float | None,
    limit: float | None,
    step: int,
    expected: float | None = None,
    likely_at_most: float | None = None,
) -> Anomaly | None:
    """Report a run that has cost more US dollars than agreed (`stop`), or will at its present pace (`warn`), or that
    leaves the range of the likely cost far behind (`warn`)."""
    if limit is None or spend is None:
        return None
    if spend > limit:
        return Anomaly(
            "overrun",
            "stop",
            max(0, step),
            f"it has cost ${spend:.2f}, more than the ${limit:.2f} that was agreed on",
            "Ask the user whether to go on; control_run stop ends the billing.",
            AnomalyEvidence("spend in US dollars", spend, limit),
        )
    if expected is None or expected <= limit:
        return _beyond_likely(max(spend, expected or 0.0), step, likely_at_most)
    return Anomaly(
        "overrun",
        "warn",
        max(0, step),
        f"it has cost ${spend:.2f} and will cost about ${expected:.2f} at this pace, more than the ${limit:.2f} that "
        "was agreed on",
        "Tell the user; control_run stop or pause ends the billing before that.",
        AnomalyEvidence("expected spend in US dollars", expected, limit),
    )


def _beyond_likely(cost: float, step: int, likely_at_most: float | None) -> Anomaly | None:
    if likely_at_most is None or cost <= BEYOND_LIKELY * likely_at_most:
        return None
    return Anomaly(
        "overrun",
        "warn",
        max(0, step),
        f"it costs about ${cost:.2f}, more than {BEYOND_LIKELY:g} times the ${likely_at_most:.2f} that the question "
        "named as the upper end of what was likely; it stays below the agreed bound",
        "Tell the user. Steps take longer than was assumed: take the time of this run's steps for the next one.",
        AnomalyEvidence("spend in US dollars", cost, BEYOND_LIKELY * likely_at_most),
    )


def long_queue(waited_seconds: float) -> Anomaly | None:
    """Report a run that waits long for GPUs."""
    if waited_seconds < QUEUED_SECONDS:
        return None
    return Anomaly(
        "queue",
        "warn",
        0,
        f"it has waited {waited_seconds / 60:.0f} minutes for GPUs; nothing is billed meanwhile",
        "Wait, or stop it and submit with a GPU type that is available now (search_hub kind=gpu).",
        AnomalyEvidence("seconds in the queue", waited_seconds, QUEUED_SECONDS),
    )


def empty_batches(log: str, last_step: int) -> Anomaly | None:
    """Report consecutive batches without a trainable rollout. Such a batch ends no step and uploads no metrics.

    `log` is the newest part of the orchestrator's log, the only place that shows these batches. A step that ended after
    the last warning clears the warning.
    """
    warnings = list(_EMPTY_BATCH.finditer(log))
    if not warnings:
        return None
    in_a_row, limit = int(warnings[-1][1]), int(warnings[-1][2])
    if re.search(r"Step \d+ \| ", log[warnings[-1].end() :]):
        return None
    return Anomaly(
        "no-signal",
        "stop" if in_a_row >= EMPTY_BATCHES else "warn",
        max(0, last_step),
        f"{in_a_row} batches in a row held nothing to train on, so no step ends; prime-rl gives up after {limit}",
        "Stop it. Every group scored all the same or was refused by the curriculum: choose tasks of middling "
        "difficulty, and test_reward.",
        AnomalyEvidence("orchestrator log: consecutive empty batches", in_a_row, EMPTY_BATCHES),
    )
