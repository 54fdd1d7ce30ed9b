"""Runs every anomaly rule over the metrics of a training run.

Windows and thresholds are those of docs/validation.md, Anomalies (window 10 steps, baseline steps 1 to 10). A level
counts only if it lasts (`metrics.holds_now`), so that one noisy step raises no anomaly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prime_lab_mcp.lab.training.anomalies.anomaly import Anomaly, rank_anomalies
from prime_lab_mcp.lab.training.anomalies.learning import (
    all_solved,
    format_plateau,
    no_signal,
    proxy_gap,
    reward_collapse,
    suspicious_jump,
)
from prime_lab_mcp.lab.training.anomalies.policy import (
    entropy_collapse,
    failing_rollouts,
    grad_norm,
    growing_length,
    off_policy,
    rising_truncation,
)
from prime_lab_mcp.lab.training.metrics import FEW_POINTS, MetricRow, merge_rows

AnomalyRule = Callable[[Sequence[MetricRow]], Anomaly | None]
ANOMALY_RULES: tuple[AnomalyRule, ...] = (
    reward_collapse,
    suspicious_jump,
    entropy_collapse,
    off_policy,
    growing_length,
    rising_truncation,
    grad_norm,
    failing_rollouts,
    format_plateau,
    proxy_gap,
)


def find_anomalies(rows: Sequence[MetricRow]) -> list[Anomaly]:
    """All anomalies that the metrics show, the worst first."""
    ordered = merge_rows(rows)
    if len(ordered) < FEW_POINTS:
        return []
    # A solved run has no signal either, and that is no fault.
    anomalies = [all_solved(ordered) or no_signal(ordered), *(rule(ordered) for rule in ANOMALY_RULES)]
    return rank_anomalies([a for a in anomalies if a is not None])
