"""Time and money: a run that waits, stands still, or costs more than was agreed on."""

from __future__ import annotations

from prime_lab_mcp.lab.anomalies.anomaly import Anomaly, Evidence

PATIENCE, TIMES, SEVERE = 600.0, 5.0, 3.0
"""Seconds, and times the usual step, without an ended step; stop at three times that. Judgement: 4.3 has no number."""
USUAL_STEP = 360.0
"""Seconds a step takes where the run has not told (the estimate that submit_training prices with)."""
QUEUED = 1800.0
"""Seconds in the queue before another GPU type is worth a thought. Judgement: 4.3 names no number."""


def stall(last_step: int, idle_seconds: float, step_seconds: float | None) -> Anomaly | None:
    """A running run that finishes no step. `idle_seconds`: since the last one."""
    usual = step_seconds or USUAL_STEP
    limit = max(PATIENCE, TIMES * usual)
    if idle_seconds <= limit:
        return None
    severe = idle_seconds > SEVERE * limit
    return Anomaly(
        "stall", "stop" if severe else "warn", max(0, last_step),
        f"no step ended for {idle_seconds / 60:.0f} minutes; one usually takes {usual / 60:.1f}",
        "Look at the logs of the env-server and inference; control_run restart goes on from the last checkpoint.",
        Evidence("seconds since the last step", idle_seconds, SEVERE * limit if severe else limit),
    )  # fmt: skip


def overrun(spend: float | None, limit: float | None, step: int, expected: float | None = None) -> Anomaly | None:
    """Billing went past the upper bound that was agreed on (`stop`), or will at this pace (`warn`). US dollars."""
    if limit is None or spend is None:
        return None
    if spend > limit:
        return Anomaly(
            "overrun", "stop", max(0, step), f"it has cost ${spend:.2f}, more than the ${limit:.2f} that was agreed on",
            "Ask the user whether to go on; control_run stop ends the billing.",
            Evidence("spend in US dollars", spend, limit),
        )  # fmt: skip
    if expected is None or expected <= limit:
        return None
    return Anomaly(
        "overrun", "warn", max(0, step),
        f"it has cost ${spend:.2f} and will cost about ${expected:.2f} at this pace, more than the ${limit:.2f} that "
        "was agreed on",
        "Tell the user; control_run stop or pause ends the billing before that.",
        Evidence("expected spend in US dollars", expected, limit),
    )  # fmt: skip


def queue(waited_seconds: float) -> Anomaly | None:
    """A run that gets no GPUs."""
    if waited_seconds < QUEUED:
        return None
    return Anomaly(
        "queue", "warn", 0,
        f"it has waited {waited_seconds / 60:.0f} minutes for GPUs; nothing is billed meanwhile",
        "Wait, or stop it and submit with a GPU type that is available now (search_hub kind=gpu).",
        Evidence("seconds in the queue", waited_seconds, QUEUED),
    )  # fmt: skip
