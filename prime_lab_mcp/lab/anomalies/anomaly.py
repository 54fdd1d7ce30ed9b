"""What stands out in a run, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Evidence:
    """The metric that shows it, its level now, and the threshold that the level is past."""

    metric: str
    value: float | None
    threshold: float

    def as_json(self) -> dict[str, Any]:
        value = None if self.value is None else float(f"{self.value:.4g}")
        return {"metric": self.metric, "value": value, "threshold": float(f"{self.threshold:.4g}")}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`stop`: stopping the run and looking is advised. `since_step` is where it began."""

    code: str
    level: Literal["warn", "stop"]
    since_step: int
    cause: str
    advice: str
    evidence: Evidence | None = None

    def as_json(self) -> dict[str, Any]:
        told = {
            "code": self.code, "level": self.level, "since_step": self.since_step,
            "cause": self.cause, "advice": self.advice,
        }  # fmt: skip
        return told | ({"evidence": self.evidence.as_json()} if self.evidence else {})
