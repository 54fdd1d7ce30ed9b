"""What a view of an evaluation is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.report import Finding, Next


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One finished evaluation. `rollouts()` reads the results anew each time it is called, one rollout at a time."""

    id: str
    spec: EvalSpec
    rollouts: Callable[[], Iterator[Rollout]]


@dataclass(frozen=True, slots=True)
class Viewed:
    """One sentence and the data behind it. Foreign text in `data` is quoted and cut (`lab.text.quote`)."""

    summary: str
    data: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    next: tuple[Next, ...] = field(default=())
