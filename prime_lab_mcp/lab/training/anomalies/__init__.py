"""Finds anomalies of a training run, with pure functions over the rows of `prime train metrics`."""

from prime_lab_mcp.lab.training.anomalies.anomaly import (
    USUAL_STEP_SECONDS,
    Anomaly,
    AnomalyEvidence,
    empty_batches,
    long_queue,
    overrun,
    rank_anomalies,
    stall,
)
from prime_lab_mcp.lab.training.anomalies.find import find_anomalies
from prime_lab_mcp.lab.training.anomalies.learning import SILENT_WARN

__all__ = [
    "SILENT_WARN",
    "USUAL_STEP_SECONDS",
    "Anomaly",
    "AnomalyEvidence",
    "empty_batches",
    "find_anomalies",
    "long_queue",
    "overrun",
    "rank_anomalies",
    "stall",
]
