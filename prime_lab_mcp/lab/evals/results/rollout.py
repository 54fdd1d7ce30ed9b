"""One finished rollout, as every layout is read into. All text in it is foreign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Rollout:
    """One finished rollout. `reward` is None where it failed (`error` says why) or is not a finite number."""

    task: str
    reward: float | None
    components: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    """Name to (score, weight); the weight is None where the layout does not tell it (v0)."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    truncated: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    completion_text: str = ""
    stop: str | None = None
    nonfinite: bool = False
    """The environment's reward was NaN or infinite."""
    id: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    """The record as it was read, for whoever needs more of it."""
