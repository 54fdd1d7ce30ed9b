"""Whether there is anything left to learn from: groups without a gradient, empty batches, tasks all solved."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prime_lab_mcp.lab.anomalies.anomaly import Anomaly, Evidence
from prime_lab_mcp.lab.run_metrics import attainable, reward, silent
from prime_lab_mcp.lab.series import FEW, WINDOW, Row, lasts, mean, onset, steady, streak

WARN, STOP = 0.6, 0.9
"""Share of groups without a gradient (facts/validation.md 4.3)."""
EMPTY = 3
"""Empty batches in a row after which stopping is advised (4.3); prime-rl 559b4477 itself gives up after ten."""
SOLVED, USABLE = 0.95, 0.1
"""Mean reward, and share of groups with a gradient, from which a run is solved (4.3)."""

_EMPTY_BATCH = re.compile(
    r"(?:empty train batch|No admitted train payload)[^\n]{0,200}?"
    r"\(consecutive (?:empty batches|zero-output batch equivalents):\s*(\d+)/(\d+)\)"
)


def no_signal(rows: Sequence[Row]) -> Anomaly | None:
    """Groups whose rollouts all score the same teach nothing."""
    found = silent(rows)
    points = found.points
    if len(points) < FEW or not lasts(points, lambda v: v > WARN):
        return None
    share = mean(points[-WINDOW:])
    mute = streak(steady(points), lambda v: v > STOP)
    if len(mute) >= WINDOW or len(streak(points, lambda v: v >= 0.999)) >= EMPTY:
        return Anomaly(
            "no-signal", "stop", onset(points, lambda v: v > STOP),
            f"{mean(points[-FEW:]):.0%} of the groups score all the same, so almost nothing is learned",
            "Stop it. Choose tasks of middling difficulty (as run_eval counts it), larger groups or a finer reward.",
            Evidence(found.name, mean(points[-FEW:]), STOP),
        )  # fmt: skip
    return Anomaly(
        "no-signal", "warn", onset(points, lambda v: v > WARN), f"{share:.0%} of the groups score all the same",
        "Write the next config with curriculum=gate, or drop tasks that are always or never solved.",
        Evidence(found.name, share, WARN),
    )  # fmt: skip


def empty_batches(log: str, last_step: int) -> Anomaly | None:
    """Batches without one trainable rollout: they end no step and upload no metrics, only the orchestrator's log tells.

    `log` is the newest part of it; a step that ended after the warning makes it past.
    """
    found = list(_EMPTY_BATCH.finditer(log))
    if not found:
        return None
    in_a_row, limit = int(found[-1][1]), int(found[-1][2])
    if re.search(r"Step \d+ \| ", log[found[-1].end() :]):
        return None
    return Anomaly(
        "no-signal", "stop" if in_a_row >= EMPTY else "warn", max(0, last_step),
        f"{in_a_row} batches in a row held nothing to train on, so no step ends; prime-rl gives up after {limit}",
        "Stop it. Every group scored all the same or was refused by the curriculum: choose tasks of middling "
        "difficulty, and test_reward.",
        Evidence("orchestrator log: consecutive empty batches", in_a_row, EMPTY),
    )  # fmt: skip


def solved(rows: Sequence[Row]) -> Anomaly | None:
    """Nothing is left to learn, and it still costs."""
    found, quiet = reward(rows), silent(rows)
    top = attainable(rows)
    if not found.points:
        return None
    high = lasts(found.points, lambda v: v > SOLVED * top)
    mute = lasts(quiet.points, lambda v: v > 1 - USABLE) and lasts(found.points, lambda v: v > 0.9 * top)
    if not high and not mute:
        return None
    now = mean(found.points[-FEW:])
    cause = f"the mean reward is {now:.2f}: hardly anything is left to learn"
    since = onset(found.points, lambda v: v > SOLVED * top) if high else onset(quiet.points, lambda v: v > 1 - USABLE)
    shown = (
        Evidence(found.name, now, SOLVED * top) if high else Evidence(quiet.name, mean(quiet.points[-FEW:]), 1 - USABLE)
    )
    advice = "Stop it and use the newest checkpoint, or go on with harder tasks."
    return Anomaly("solved", "warn", since, cause, advice, shown)
