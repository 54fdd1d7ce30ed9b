"""Defines `Rollout`, one finished rollout of any layout, and `Reading`, which counts what a reader leaves out.

All text in a rollout comes from a model, a dataset or an environment: quote the text before you show it. `Reading`
counts the lines and rollouts that are left out of a file, by reason, and reports the counts as findings.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote


class RolloutOrigin(NamedTuple):
    """The environment, agent, model and verifiers version that a record names. A field is empty if it names none."""

    environment: str = ""
    agent: str = ""
    """Name of the agent in a v1 environment with several agents."""
    model: str = ""
    verifiers: str = ""
    """Version of the verifiers library that wrote the record."""


UNKNOWN_ORIGIN = RolloutOrigin()


@dataclass(slots=True)
class Rollout:
    """One finished rollout. `reward` is None if the rollout failed (`error` has the reason) or its reward is not
    finite.

    No code changes a rollout after it was read. The class is not frozen, because creating frozen instances takes three
    times as long.
    """

    task: str
    reward: float | None
    components: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    """Maps the name of a component to (score, weight). The weight is None if the layout stores no weights (v0)."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    truncated: bool = False
    """Whether a limit cut the rollout off, as verifiers or the endpoint reports. It is never inferred from a length."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Sum over all turns, as the endpoint counted them; 0 if the layout stores no number."""
    seconds: float = 0.0
    completion_text: str = ""
    stop: str | None = None
    nonfinite: bool = False
    """Whether the environment's reward was NaN or infinite."""
    id: str = ""
    """Unique id of the rollout; empty if the layout has no such id."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """The decoded record, for readers that need other fields."""
    origin: RolloutOrigin = UNKNOWN_ORIGIN
    called_tool: bool | None = None
    """Whether the model called a tool; None if the model was offered no tool or the layout does not store this."""
    replies: int = 1
    """Number of replies whose tokens `completion_tokens` counts; 1 if the layout does not store a number."""
    traces: int = 0
    """Number of all agents' traces in the rollout's episode, trained or not; 0 if the layout stores no episodes."""


_KINDS = 8
"""Number of origins that are counted separately. All further origins are counted together."""


class NameSet:
    """A set of names that needs 16 to 32 bytes for each name. A Python set of a million strings would need 100 MiB.

    The set stores a hash of 64 bits for each name. Two of a million names collide with a probability of 3e-8.
    """

    __slots__ = ("_mask", "_size", "_slots")

    def __init__(self) -> None:
        self._mask = (1 << 10) - 1
        self._slots = array("Q", bytes(8 << 10))
        self._size = 0

    def add(self, name: str) -> bool:
        """Add a name; return whether the name is new."""
        value = hash(name) & 0xFFFF_FFFF_FFFF_FFFF or 1
        slots, mask = self._slots, self._mask
        at = value & mask
        while stored := slots[at]:
            if stored == value:
                return False
            at = (at + 1) & mask
        slots[at] = value
        self._size += 1
        if self._size * 2 > mask:
            self._grow()
        return True

    def _grow(self) -> None:
        """Double the number of slots, and insert all hashes again."""
        old = self._slots
        self._mask = mask = self._mask * 2 + 1
        self._slots = slots = array("Q", bytes(8 * (mask + 1)))
        for value in old:
            if value:
                at = value & mask
                while slots[at]:
                    at = (at + 1) & mask
                slots[at] = value


@dataclass(slots=True)
class Reading:
    """The counts of reading one results file. They are complete when the reader has ended."""

    rollouts: int = 0
    broken: int = 0
    """Lines that are not a JSON record, without an incomplete last line."""
    broken_at: int = 0
    """Number of the first broken line, counted from 1."""
    cut_off: bool = False
    """Whether the last line is incomplete, because the writing process died or is still writing."""
    repeated: int = 0
    """Rollouts that were left out because an earlier rollout has the same id."""
    repeated_id: str = ""
    foreign: Counter[RolloutOrigin] = field(default_factory=Counter)
    """Rollouts that were left out because their environment, model or verifiers version differs from the first
    rollout's."""
    _origins: dict[str, RolloutOrigin] = field(default_factory=dict)
    _last: RolloutOrigin | None = None
    _ids: NameSet = field(default_factory=NameSet)

    def admit(self, rollout: Rollout) -> bool:
        """Whether a reader should yield this rollout. Repeated rollouts and rollouts of another origin are counted."""
        if rollout.origin is not self._last:
            if not self._has_same_origin(rollout.origin):
                return False
            self._last = rollout.origin
        if rollout.id and not self._ids.add(rollout.id):
            self.repeated += 1
            self.repeated_id = self.repeated_id or rollout.id
            return False
        self.rollouts += 1
        return True

    def _has_same_origin(self, origin: RolloutOrigin) -> bool:
        """Whether a rollout has the same origin as the first rollout of its agent. Otherwise it is counted."""
        # The agents of one environment may use different models.
        first = self._origins.setdefault(origin.agent, origin)
        if first == origin and origin.environment == next(iter(self._origins.values())).environment:
            return True
        kind = origin if origin in self.foreign or len(self.foreign) < _KINDS else RolloutOrigin()
        self.foreign[kind] += 1
        return False

    def findings(self) -> tuple[Finding, ...]:
        """Return findings about everything that was left out; none for a file that was read completely."""
        return (*self._foreign(), *self._repeated(), *self._broken())

    def _foreign(self) -> tuple[Finding, ...]:
        if not self.foreign:
            return ()
        first = next(iter(self._origins.values()))
        others = "; ".join(f"{n} of {_named(origin)}" for origin, n in self.foreign.most_common(3))
        return (
            Finding(
                "results-mixed-origin",
                "blocker",
                f"the file holds rollouts that others made ({others}); only those of {_named(first)} were taken",
                "Keep one environment, model and verifiers version per file, and read each file by itself.",
            ),
        )

    def _repeated(self) -> tuple[Finding, ...]:
        if not self.repeated:
            return ()
        message = f"{count(self.repeated, 'rollout')} repeat the id of an earlier one and were left out"
        return (
            Finding(
                "results-repeated",
                "warning",
                f"{message} (first: {quote(self.repeated_id, 60)})",
                "Nothing, if the evaluation was resumed or a write was retried; else run run_eval again.",
            ),
        )

    def _broken(self) -> tuple[Finding, ...]:
        findings = []
        if self.broken:
            findings.append(
                Finding(
                    "results-broken-lines",
                    "warning",
                    f"{count(self.broken, 'line')} within the file hold no whole record (first: line "
                    f"{self.broken_at}): those rollouts are missing from every number",
                    "Run run_eval again with the same arguments; it resumes what is missing where verifiers can.",
                )
            )
        if self.cut_off:
            findings.append(
                Finding(
                    "results-cut-off",
                    "info",
                    "the last line breaks off: its writer died or still writes",
                    "Run run_eval with the same arguments to finish the evaluation.",
                )
            )
        return tuple(findings)


def _named(origin: RolloutOrigin) -> str:
    parts = [quote(part, 60) for part in (origin.environment, origin.model) if part]
    if origin.verifiers:
        parts.append(f"verifiers {quote(origin.verifiers, 20)}")
    return ", ".join(parts) or "unnamed others"
