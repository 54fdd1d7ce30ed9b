"""The policy as the trainer sees it: entropy, agreement with inference, gradient."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from prime_lab_mcp.lab.anomalies.anomaly import Anomaly, Evidence
from prime_lab_mcp.lab.run_metrics import GRADIENT, entropy, mismatch
from prime_lab_mcp.lab.series import FEW, WINDOW, Row, baseline, lasts, mean, median, onset, step_of, value_of

THIN, GONE, NATS = 0.3, 0.05, 0.02
"""Parts of the entropy at the start, and nats below which it is gone (facts/validation.md 4.3)."""
NORMAL_LOSS, NORMAL_STEPS = 0.73, 200
"""The entropy mechanism paper (arXiv 2505.22617) saw 73 % gone by step 200 in runs that were well."""
GROWN, FAR_GROWN, RISING = 3.0, 10.0, 20
"""Times the baseline of the mismatch, and steps of steady growth (4.3): every five higher, and in all doubled."""
SPIKE, HUGE, THRICE = 5.0, 20.0, 3
"""Times the running median of the gradient norm, and how often it may be huge (4.3)."""


def entropy_collapse(rows: Sequence[Row]) -> Anomaly | None:
    """Without entropy there is nothing left to explore."""
    found = entropy(rows)
    points = found.points
    if len(points) < 2 * FEW:
        return None
    start, now = baseline(points[:WINDOW]), median(points[-FEW:])
    # What a run that is well has lost by now is no warning; what is gone is gone, however slowly.
    usual = (1 - NORMAL_LOSS) ** ((points[-1][0] - points[0][0]) / NORMAL_STEPS)
    thin = start * min(THIN, max(usual, GONE))
    gone = max(GONE * start, NATS)
    if start <= NATS or now >= max(thin, gone):
        return None
    stop = now < gone
    return Anomaly(
        "entropy-collapse", "stop" if stop else "warn", onset(points, lambda v: v < max(thin, gone)),
        f"entropy fell from {start:.3f} to {now:.3f} nats",
        "Stop it and go back to a checkpoint before that; a lower lr or a larger group keeps more of it." if stop
        else "Some loss is normal (about three quarters by step 200); watch whether the reward still rises.",
        Evidence(found.name, now, gone if stop else thin),
    )  # fmt: skip


def off_policy(rows: Sequence[Row]) -> Anomaly | None:
    """Trainer and inference disagree on the policy: an early warning of instability."""
    found = mismatch(rows)
    points = found.points
    base = baseline(points) if len(points) >= 2 * FEW else 0.0
    if base <= 0:
        return None
    last = points[-RISING:] if len(points) >= RISING else []
    fives = [mean(last[i : i + 5]) for i in range(0, len(last), 5)]
    rising = bool(fives) and fives == sorted(fives) and fives[-1] > 2 * max(fives[0], base)
    now = median(points[-FEW:])
    grown = lasts(points, lambda v: v >= GROWN * base)
    if not grown and not rising:
        return None
    far = lasts(points, lambda v: v >= FAR_GROWN * base)
    since = onset(points, lambda v: v >= (GROWN if grown else 1.5) * base)
    return Anomaly(
        "off-policy", "stop" if far or rising else "warn", since,
        f"the mismatch between trainer and inference grew to {now / base:.1f} times its baseline",
        "Lower max_off_policy_steps or the lr; if it keeps growing, stop and resume from an earlier checkpoint.",
        Evidence(found.name, now, (FAR_GROWN if far else GROWN) * base),
    )  # fmt: skip


def grad_norm(rows: Sequence[Row]) -> Anomaly | None:
    """Spikes precede divergence; a value that is not finite is divergence."""
    seen: list[float] = []
    spikes: list[tuple[int, float]] = []
    for row in rows:
        value = value_of(row, GRADIENT)
        # prime-rl leaves out what is not finite: a row of the optimizer without it, after rows that had it.
        # Null in a row that has no lr either is a step whose optimizer has not told yet.
        told = value_of(row, "optim/lr") is not None
        left_out = value is None and ((bool(seen) and told) or (GRADIENT in row and (told or "optim/lr" not in row)))
        if left_out or (value is not None and not math.isfinite(value)):
            return Anomaly(
                "grad-norm", "stop", step_of(row) or 0, "the gradient is not finite (NaN or infinite)",
                "Stop it: what follows is ruined. Resume from an earlier checkpoint with a lower lr.",
                Evidence(GRADIENT, None, SPIKE),
            )  # fmt: skip
        if value is None:
            continue
        usual = statistics.median(seen[-WINDOW:]) if len(seen) >= FEW else 0.0
        if usual > 0 and value > SPIKE * usual:
            spikes.append((step_of(row) or 0, value / usual))
        seen.append(value)
    return _spiked(spikes) if spikes else None


def _spiked(spikes: Sequence[tuple[int, float]]) -> Anomaly:
    huge = [s for s in spikes if s[1] > HUGE]
    stop = len(huge) >= THRICE
    told = huge if stop else spikes
    highest = max(s[1] for s in told)
    return Anomaly(
        "grad-norm", "stop" if stop else "warn", told[0][0],
        f"the gradient norm reached {highest:.0f} times its running median, {len(told)} times in all, "
        f"at step {told[-1][0]} last",
        "Stop it and resume from an earlier checkpoint with a lower lr." if stop
        else "Lower the lr if it repeats (the norm is clipped at 1.0 by default).",
        Evidence(f"{GRADIENT} / running median", highest, HUGE if stop else SPIKE),
    )  # fmt: skip
