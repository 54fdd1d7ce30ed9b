"""What the difficulty of tasks is judged by, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from prime_lab_mcp.lab.distribution.intervals import Interval
from prime_lab_mcp.lab.report import Finding, Next
from prime_lab_mcp.lab.text import rounded

State = Literal["ready", "thin", "start low", "dead", "undecided", "solved", "unknown"]
"""ready: train as it is. thin: some signal, most groups wasted. start low: begin with the easiest tasks. dead: nothing
to reinforce. undecided: too few rollouts to say. solved: little left. unknown: one rollout a task."""


@dataclass(frozen=True, slots=True)
class GroupSize:
    size: int
    share: float
    """Of groups with a gradient, expected."""
    interval: Interval | None
    cost: float
    """Rollouts a step beside the present group size, for as many tasks a step."""
    revived: float | None
    """Expected number of the tasks nothing solved that would have a gradient at a time; None where all ended alike."""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "group_size": self.size,
            "usable_share": rounded(self.share, 3),
            "cost": rounded(self.cost, 2),
            "rollouts_per_usable_group": round(self.size / self.share) if self.share > 1e-3 else None,
        }
        if self.interval is not None:
            found |= {"low": rounded(self.interval.low, 3), "high": rounded(self.interval.high, 3)}
        return found | ({"unsolved_with_signal": rounded(self.revived, 1)} if self.revived is not None else {})


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one evaluation. Means are of reward / attainable; solved is half of it or more."""

    tasks: int
    of: int | None
    rollouts: int
    group: int
    mean: float
    start: int
    """Tasks with a mean from 0.2 to 0.8."""
    start_mean: float | None
    start_again: float | None
    """The solve rate to expect of those tasks the next time."""
    rare: int
    never: int
    always: int
    """Tasks with a mean above 0.8."""
    solved: int
    varied: bool
    """Whether any task had two rewards that differ by more than their form."""
    small: bool
    """Too few tasks or rollouts to pass any judgement."""
    sizes: tuple[GroupSize, ...]
    at: GroupSize | None
    environment: str
    model: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class Phase:
    tasks: str
    number: int
    until: str

    def as_json(self) -> dict[str, Any]:
        return {"tasks": self.tasks, "evaluated": self.number, "until": self.until}


@dataclass(frozen=True, slots=True)
class Advice:
    state: State
    lines: tuple[str, ...]
    phases: tuple[Phase, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    next: tuple[Next, ...] = ()
