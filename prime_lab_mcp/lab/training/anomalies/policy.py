"""Anomalies of the policy and of its rollouts: entropy, mismatch, gradients, length, truncation, errors.

Thresholds are those of docs/validation.md, Anomalies.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from prime_lab_mcp.lab.training.anomalies.anomaly import Anomaly, AnomalyEvidence
from prime_lab_mcp.lab.training.metrics import (
    FEW_POINTS,
    GRADIENT_NAME,
    WINDOW_STEPS,
    MetricRow,
    baseline,
    entropy_series,
    error_series,
    holds_now,
    mean,
    median,
    mismatch_series,
    onset,
    step_of,
    token_series,
    truncation_series,
    value_of,
)

ENTROPY_WARN, ENTROPY_STOP, ENTROPY_NATS = 0.3, 0.05, 0.02
"""Fractions of the initial entropy for `warn` and `stop`, and the nats below which entropy has collapsed."""
ENTROPY_NORMAL_LOSS, ENTROPY_NORMAL_STEPS = 0.73, 200
"""Healthy runs lose 73 % of their entropy by step 200 (the entropy mechanism paper, arXiv 2505.22617)."""
MISMATCH_GROWN, MISMATCH_FAR_GROWN, MISMATCH_RISING_STEPS = 3.0, 10.0, 20
"""Multiples of the baseline mismatch for `warn` and `stop`. A steady growth over `MISMATCH_RISING_STEPS` steps also
means `stop`: each mean of five steps is higher than the one before, and the last is more than double the first."""
GRADIENT_SPIKE, GRADIENT_HUGE, GRADIENT_SPIKES = 5.0, 20.0, 3
"""Multiples of the running median gradient norm that make a spike and a huge spike. `GRADIENT_SPIKES` huge spikes mean
`stop`."""


def entropy_collapse(rows: Sequence[MetricRow]) -> Anomaly | None:
    """Entropy falls so far that the policy stops exploring."""
    entropy = entropy_series(rows)
    points = entropy.points
    if len(points) < 2 * FEW_POINTS:
        return None
    start, now = baseline(points[:WINDOW_STEPS]), median(points[-FEW_POINTS:])
    # The loss of a healthy run at this step is no warning, but entropy below `gone` is one however slowly it fell.
    usual = (1 - ENTROPY_NORMAL_LOSS) ** ((points[-1][0] - points[0][0]) / ENTROPY_NORMAL_STEPS)
    thin = start * min(ENTROPY_WARN, max(usual, ENTROPY_STOP))
    limit = max(ENTROPY_STOP * start, ENTROPY_NATS)
    if start <= ENTROPY_NATS or now >= max(thin, limit):
        return None
    stop = now < limit
    return Anomaly(
        "entropy-collapse",
        "stop" if stop else "warn",
        onset(points, lambda v: v < max(thin, limit)),
        f"entropy fell from {start:.3f} to {now:.3f} nats",
        "Stop it and go back to a checkpoint before that; a lower lr or a larger group keeps more of it."
        if stop
        else "Some loss is normal (about three quarters by step 200); watch whether the reward still rises.",
        AnomalyEvidence(entropy.name, now, limit if stop else thin),
    )


def off_policy(rows: Sequence[MetricRow]) -> Anomaly | None:
    """The policies of trainer and inference diverge: an early sign of instability."""
    mismatch = mismatch_series(rows)
    points = mismatch.points
    base = baseline(points) if len(points) >= 2 * FEW_POINTS else 0.0
    if base <= 0:
        return None
    last = points[-MISMATCH_RISING_STEPS:] if len(points) >= MISMATCH_RISING_STEPS else []
    fives = [mean(last[i : i + 5]) for i in range(0, len(last), 5)]
    rising = bool(fives) and fives == sorted(fives) and fives[-1] > 2 * max(fives[0], base)
    now = median(points[-FEW_POINTS:])
    grown = holds_now(points, lambda v: v >= MISMATCH_GROWN * base)
    if not grown and not rising:
        return None
    far = holds_now(points, lambda v: v >= MISMATCH_FAR_GROWN * base)
    since = onset(points, lambda v: v >= (MISMATCH_GROWN if grown else 1.5) * base)
    return Anomaly(
        "off-policy",
        "stop" if far or rising else "warn",
        since,
        f"the mismatch between trainer and inference grew to {now / base:.1f} times its baseline",
        "Lower max_off_policy_steps or the lr; if it keeps growing, stop and resume from an earlier checkpoint.",
        AnomalyEvidence(mismatch.name, now, (MISMATCH_FAR_GROWN if far else MISMATCH_GROWN) * base),
    )


def grad_norm(rows: Sequence[MetricRow]) -> Anomaly | None:
    """The gradient norm spikes, which precedes divergence, or is not finite, which is divergence."""
    norms: list[float] = []
    spikes: list[tuple[int, float]] = []
    for row in rows:
        value = value_of(row, GRADIENT_NAME)
        # prime-rl omits a norm that is not finite: an optimizer row lacks the norm after rows that had one.
        # A null norm in a row whose lr is also null is a step whose optimizer has not reported yet.
        has_lr = value_of(row, "optim/lr") is not None
        left_out = value is None and (
            (bool(norms) and has_lr) or (GRADIENT_NAME in row and (has_lr or "optim/lr" not in row))
        )
        if left_out or (value is not None and not math.isfinite(value)):
            return Anomaly(
                "grad-norm",
                "stop",
                step_of(row) or 0,
                "the gradient is not finite (NaN or infinite)",
                "Stop it: what follows is ruined. Resume from an earlier checkpoint with a lower lr.",
                AnomalyEvidence(GRADIENT_NAME, None, GRADIENT_SPIKE),
            )
        if value is None:
            continue
        usual = statistics.median(norms[-WINDOW_STEPS:]) if len(norms) >= FEW_POINTS else 0.0
        if usual > 0 and value > GRADIENT_SPIKE * usual:
            spikes.append((step_of(row) or 0, value / usual))
        norms.append(value)
    return _gradient_spikes(spikes) if spikes else None


def _gradient_spikes(spikes: Sequence[tuple[int, float]]) -> Anomaly:
    huge = [s for s in spikes if s[1] > GRADIENT_HUGE]
    stop = len(huge) >= GRADIENT_SPIKES
    reported = huge if stop else spikes
    highest = max(s[1] for s in reported)
    return Anomaly(
        "grad-norm",
        "stop" if stop else "warn",
        reported[0][0],
        f"the gradient norm reached {highest:.0f} times its running median, {len(reported)} times in all, "
        f"at step {reported[-1][0]} last",
        "Stop it and resume from an earlier checkpoint with a lower lr."
        if stop
        else "Lower the lr if it repeats (the norm is clipped at 1.0 by default).",
        AnomalyEvidence(f"{GRADIENT_NAME} / running median", highest, GRADIENT_HUGE if stop else GRADIENT_SPIKE),
    )


LENGTH_GROWN, LENGTH_FAR_GROWN = 1.5, 2.5
"""Multiples of the baseline number of output tokens for `warn` and `stop`."""
TRUNCATION_WARN, TRUNCATION_RISE, TRUNCATION_STOP = 0.10, 0.05, 0.30
"""Share of truncated rollouts for `warn`, its rise over the baseline for `warn`, and its share for `stop`."""
ERRORS_WARN, ERRORS_STOP = 0.05, 0.25
"""Share of rollouts with an error for `warn` and `stop`."""


def growing_length(rows: Sequence[MetricRow]) -> Anomaly | None:
    """Completions grow longer, which costs more and leads to truncation."""
    tokens = token_series(rows)
    points = tokens.points
    base = baseline(points) if len(points) >= 2 * FEW_POINTS else 0.0
    if base <= 0 or not holds_now(points, lambda v: v > LENGTH_GROWN * base):
        return None
    cut = truncation_series(rows).points
    rising = len(cut) >= 2 * FEW_POINTS and mean(cut[-WINDOW_STEPS // 2 :]) > baseline(cut) + TRUNCATION_RISE
    now = median(points[-FEW_POINTS:])
    stop = rising and now > LENGTH_FAR_GROWN * base
    return Anomaly(
        "length",
        "stop" if stop else "warn",
        onset(points, lambda v: v > LENGTH_GROWN * base),
        f"answers grew from {base:.0f} to {now:.0f} tokens" + (", and more of them are cut off" if rising else ""),
        "See whether length itself is rewarded (test_reward finds reward-length-bonus), or raise the token limit.",
        AnomalyEvidence(tokens.name, now, (LENGTH_FAR_GROWN if stop else LENGTH_GROWN) * base),
    )


def rising_truncation(rows: Sequence[MetricRow]) -> Anomaly | None:
    """Many completions are truncated, so they are scored as wrong."""
    truncation = truncation_series(rows)
    points = truncation.points
    if len(points) < FEW_POINTS:
        return None
    base = baseline(points) if len(points) >= 2 * FEW_POINTS else 1.0
    limit = min(TRUNCATION_WARN, base + TRUNCATION_RISE)
    if not holds_now(points, lambda v: v > limit):
        return None
    now = median(points[-FEW_POINTS:])
    stop = holds_now(points, lambda v: v > TRUNCATION_STOP)
    return Anomaly(
        "truncation",
        "stop" if stop else "warn",
        onset(points, lambda v: v > limit),
        f"{now:.0%} of the rollouts are cut off at the token limit",
        "Raise max_completion_tokens (and seq_len); waiting does not help.",
        AnomalyEvidence(truncation.name, now, TRUNCATION_STOP if stop else limit),
    )


def failing_rollouts(rows: Sequence[MetricRow]) -> Anomaly | None:
    """Many rollouts end in an error, so a broken environment or sandbox looks like difficulty."""
    errors = error_series(rows)
    points = errors.points
    if not holds_now(points, lambda v: v > ERRORS_WARN):
        return None
    now = median(points[-FEW_POINTS:])
    stop = now > ERRORS_STOP
    return Anomaly(
        "errors",
        "stop" if stop else "warn",
        onset(points, lambda v: v > ERRORS_WARN),
        f"{now:.0%} of the rollouts end in an error, not in an answer",
        "Look at the env-server's log and mend the environment; error rollouts only cost.",
        AnomalyEvidence(errors.name, now, ERRORS_STOP if stop else ERRORS_WARN),
    )
