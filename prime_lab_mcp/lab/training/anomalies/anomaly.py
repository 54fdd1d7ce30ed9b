"""An anomaly of a training run, with the metric that shows the anomaly."""

from __future__ import annotations

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


def rank_anomalies(found: Sequence[Anomaly]) -> list[Anomaly]:
    """Sort anomalies: level `stop` first, then the earliest."""
    return sorted(found, key=lambda a: (a.level != "stop", a.since_step))
