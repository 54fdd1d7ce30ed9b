"""What the model writes: length, cut-off replies, rollouts that end in an error."""

from __future__ import annotations

from collections.abc import Sequence

from prime_lab_mcp.lab.anomalies.anomaly import Anomaly, Evidence
from prime_lab_mcp.lab.run_metrics import errors as errored
from prime_lab_mcp.lab.run_metrics import tokens, truncated
from prime_lab_mcp.lab.series import FEW, WINDOW, Row, baseline, lasts, mean, median, onset

LONGER, FAR_LONGER = 1.5, 2.5
"""Times the baseline of output tokens (facts/validation.md 4.3)."""
CUT, CUT_MORE, CUT_MOST = 0.10, 0.05, 0.30
"""Share of truncated rollouts: warn, rise over the baseline that warns, stop (4.3)."""
FAILING, BROKEN = 0.05, 0.25
"""Share of rollouts with an error: warn, stop (4.3)."""


def length(rows: Sequence[Row]) -> Anomaly | None:
    """Answers that grow cost more and end up cut off."""
    found = tokens(rows)
    points = found.points
    base = baseline(points) if len(points) >= 2 * FEW else 0.0
    if base <= 0 or not lasts(points, lambda v: v > LONGER * base):
        return None
    cut = truncated(rows).points
    rising = len(cut) >= 2 * FEW and mean(cut[-WINDOW // 2 :]) > baseline(cut) + CUT_MORE
    now = median(points[-FEW:])
    stop = rising and now > FAR_LONGER * base
    return Anomaly(
        "length", "stop" if stop else "warn", onset(points, lambda v: v > LONGER * base),
        f"answers grew from {base:.0f} to {now:.0f} tokens" + (", and more of them are cut off" if rising else ""),
        "See whether length itself is rewarded (test_reward finds reward-length-bonus), or raise the token limit.",
        Evidence(found.name, now, (FAR_LONGER if stop else LONGER) * base),
    )  # fmt: skip


def truncation(rows: Sequence[Row]) -> Anomaly | None:
    """Answers cut off before they end are scored as wrong."""
    found = truncated(rows)
    points = found.points
    if len(points) < FEW:
        return None
    base = baseline(points) if len(points) >= 2 * FEW else 1.0
    limit = min(CUT, base + CUT_MORE)
    if not lasts(points, lambda v: v > limit):
        return None
    now = median(points[-FEW:])
    stop = lasts(points, lambda v: v > CUT_MOST)
    return Anomaly(
        "truncation", "stop" if stop else "warn", onset(points, lambda v: v > limit),
        f"{now:.0%} of the rollouts are cut off at the token limit",
        "Raise max_completion_tokens (and seq_len); waiting does not help.",
        Evidence(found.name, now, CUT_MOST if stop else limit),
    )  # fmt: skip


def errors(rows: Sequence[Row]) -> Anomaly | None:
    """A broken environment or sandbox looks like difficulty."""
    found = errored(rows)
    points = found.points
    if not lasts(points, lambda v: v > FAILING):
        return None
    now = median(points[-FEW:])
    stop = now > BROKEN
    return Anomaly(
        "errors", "stop" if stop else "warn", onset(points, lambda v: v > FAILING),
        f"{now:.0%} of the rollouts end in an error, not in an answer",
        "Look at the env-server's log and mend the environment; error rollouts only cost.",
        Evidence(found.name, now, BROKEN if stop else FAILING),
    )  # fmt: skip
