"""What reading a results file showed besides its rollouts: lines and rows that were left out, and why."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

from prime_lab_mcp.lab.evals.results.rollout import MadeBy, Rollout
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

_KINDS = 8
"""Different makers that are told apart; the rest is counted together."""


class Seen:
    """Which names were seen before, in 16 to 32 bytes a name: a million fit where a set of them needs 100 MiB.

    Names are told apart by 64 bits of their hash: among a million, two are taken for one with a chance of 3e-8.
    """

    __slots__ = ("_held", "_mask", "_slots")

    def __init__(self) -> None:
        self._mask = (1 << 10) - 1
        self._slots = array("Q", bytes(8 << 10))
        self._held = 0

    def add(self, name: str) -> bool:
        """Whether it is new."""
        value = hash(name) & 0xFFFF_FFFF_FFFF_FFFF or 1
        slots, mask = self._slots, self._mask
        at = value & mask
        while found := slots[at]:
            if found == value:
                return False
            at = (at + 1) & mask
        slots[at] = value
        self._held += 1
        if self._held * 2 > mask:
            self._grow()
        return True

    def _grow(self) -> None:
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
    """Counts of one pass over a results file. Hand one in, and look at it when the pass has ended."""

    rollouts: int = 0
    broken: int = 0
    """Lines within the file that are no JSON record."""
    broken_at: int = 0
    """The first of them, counted from 1."""
    cut_off: bool = False
    """The last line is no whole record: its writer died, or still writes."""
    repeated: int = 0
    """Rollouts with the id of an earlier one: left out."""
    repeated_id: str = ""
    foreign: Counter[MadeBy] = field(default_factory=Counter)
    """Rollouts that say another environment, model or verifiers made them than the first: left out."""
    _makers: dict[str, MadeBy] = field(default_factory=dict)
    _last: MadeBy | None = None
    _seen: Seen = field(default_factory=Seen)

    def admit(self, rollout: Rollout) -> bool:
        """Whether this rollout belongs to what was read so far; one that does not is counted."""
        if rollout.made_by is not self._last:
            if not self._same(rollout.made_by):
                return False
            self._last = rollout.made_by
        if rollout.id and not self._seen.add(rollout.id):
            self.repeated += 1
            self.repeated_id = self.repeated_id or rollout.id
            return False
        self.rollouts += 1
        return True

    def _same(self, made_by: MadeBy) -> bool:
        # The agents of one environment may be different models.
        first = self._makers.setdefault(made_by.agent, made_by)
        if first == made_by and made_by.environment == next(iter(self._makers.values())).environment:
            return True
        kind = made_by if made_by in self.foreign or len(self.foreign) < _KINDS else MadeBy()
        self.foreign[kind] += 1
        return False

    def findings(self) -> tuple[Finding, ...]:
        """What to tell of it; nothing for a file that was read whole."""
        return (*self._foreign(), *self._repeated(), *self._broken())

    def _foreign(self) -> tuple[Finding, ...]:
        if not self.foreign:
            return ()
        first = next(iter(self._makers.values()))
        others = "; ".join(f"{n} of {_named(made_by)}" for made_by, n in self.foreign.most_common(3))
        return (
            Finding(
                "results-mixed-origin", "blocker",
                f"the file holds rollouts that others made ({others}); only those of {_named(first)} were taken",
                "Keep one environment, model and verifiers version per file, and read each file by itself.",
            ),
        )  # fmt: skip

    def _repeated(self) -> tuple[Finding, ...]:
        if not self.repeated:
            return ()
        said = f"{count(self.repeated, 'rollout')} repeat the id of an earlier one and were left out"
        return (
            Finding(
                "results-repeated", "warning", f"{said} (first: {quote(self.repeated_id, 60)})",
                "Nothing, if the evaluation was resumed or a write was retried; else run run_eval again.",
            ),
        )  # fmt: skip

    def _broken(self) -> tuple[Finding, ...]:
        found = []
        if self.broken:
            found.append(
                Finding(
                    "results-broken-lines", "warning",
                    f"{count(self.broken, 'line')} within the file hold no whole record (first: line "
                    f"{self.broken_at}): those rollouts are missing from every number",
                    "Run run_eval again with the same arguments; it resumes what is missing where verifiers can.",
                )
            )  # fmt: skip
        if self.cut_off:
            found.append(
                Finding(
                    "results-cut-off", "info", "the last line breaks off: its writer died or still writes",
                    "Run run_eval with the same arguments to finish the evaluation.",
                )
            )  # fmt: skip
        return tuple(found)


def _named(made_by: MadeBy) -> str:
    said = [quote(part, 60) for part in (made_by.environment, made_by.model) if part]
    if made_by.verifiers:
        said.append(f"verifiers {quote(made_by.verifiers, 20)}")
    return ", ".join(said) or "unnamed others"
