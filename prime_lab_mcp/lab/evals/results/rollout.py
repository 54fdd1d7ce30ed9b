"""One finished rollout, as every layout is read into. All text in it is foreign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class MadeBy(NamedTuple):
    """What one record itself says made it; empty where it does not."""

    environment: str = ""
    agent: str = ""
    """Its name within a v1 environment of several."""
    model: str = ""
    verifiers: str = ""
    """Version of the library."""


NOBODY = MadeBy()


@dataclass(slots=True)
class Rollout:
    """One finished rollout. `reward` is None where it failed (`error` says why) or is not a finite number.

    Never changed once read; not frozen only because that would triple the time to make one.
    """

    task: str
    reward: float | None
    components: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    """Name to (score, weight); the weight is None where the layout does not tell it (v0)."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    truncated: bool = False
    """Cut off by a limit: the library or the endpoint says so. Never guessed from a length."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Of all turns, as the endpoint counted; 0 where nothing tells."""
    seconds: float = 0.0
    completion_text: str = ""
    stop: str | None = None
    nonfinite: bool = False
    """The environment's reward was NaN or infinite."""
    id: str = ""
    """Of this rollout alone; empty where the layout has none that is."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """The record as it was read, for whoever needs more of it."""
    made_by: MadeBy = NOBODY
