"""Which rollouts a person should read first: those whose reward and reply do not seem to belong together."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from prime_lab_mcp.lab.evals.conversation import conversation, gold
from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.views.columns import CUT, FAILED, ZERO, Columns
from prime_lab_mcp.lab.evals.views.gold_said import Said, gold_of, said, telling

UNSAID, DENIED, CUT_PAID, SHORT = 1, 2, 4, 8
REASONS = {
    UNSAID: "rewarded, and the gold answer is not in the reply",
    DENIED: "earned nothing, and the gold answer is in the reply",
    CUT_PAID: "cut off, and rewarded",
    SHORT: "one of the shortest of those rewarded, at most half as long as is usual",
}
_SHORTEST = 10
_ENOUGH_WINNERS = 8


@dataclass(slots=True)
class Suspicions:
    """What is wrong with each rollout, by its place in the file. Two bytes a rollout beside its columns."""

    columns: Columns
    said: array[int] = field(default_factory=lambda: array("B"))

    def add(self, rollout: Rollout) -> None:
        self.columns.add(rollout)
        flags = self.columns.flags[-1]
        self.said.append(Said.UNKNOWN if flags & FAILED else _said(rollout, zero=bool(flags & ZERO)))

    def rewarded(self, index: int, best: float) -> bool:
        """High reward: at least half of what is attainable, for more than its form."""
        return self.columns.passed(index, best) and not self.columns.flags[index] & ZERO

    def reasons(self) -> array[int]:
        """Bits of REASONS for every rollout."""
        best, columns = self.columns.best, self.columns
        found = array("B", bytes(len(columns)))
        winners = [i for i in range(len(columns)) if self.rewarded(i, best)]
        for index in winners:
            found[index] |= UNSAID * (self.said[index] == Said.ABSENT)
            found[index] |= CUT_PAID * bool(columns.flags[index] & CUT)
        for index in self._shortest(winners):
            found[index] |= SHORT
        for index, flags in enumerate(columns.flags):
            if flags & ZERO and self.said[index] >= Said.MENTIONED:
                found[index] |= DENIED
        return found

    def _shortest(self, winners: list[int]) -> list[int]:
        """Winners at most half as long as the middle one; none where lengths were not told."""
        length = self.columns.length
        told = sorted((length[i], i) for i in winners if length[i] > 0)
        if len(told) < _ENOUGH_WINNERS:
            return []
        middle = told[len(told) // 2][0]
        return [i for tokens, i in told[:_SHORTEST] if 2 * tokens <= middle]


def named(reasons: int) -> list[str]:
    return [text for bit, text in REASONS.items() if reasons & bit]


def worst(reasons: int) -> int:
    """Place of the gravest reason, 0 first; 4 where there is none."""
    return next((place for place, bit in enumerate(REASONS) if reasons & bit), len(REASONS))


def _said(rollout: Rollout, *, zero: bool) -> Said:
    wanted = gold_of(gold(rollout))
    found = said(wanted, rollout.completion_text)
    if found is Said.MENTIONED and zero and not telling(wanted):
        return Said.ABSENT
    if found is Said.ABSENT and not zero:
        # An answer may be handed in by a tool call.
        return Said.MENTIONED if any(said(wanted, text) > Said.ABSENT for text in _called(rollout)) else found
    return found


def _called(rollout: Rollout) -> Iterator[str]:
    return (call.arguments for message in conversation(rollout) for call in message.calls)
