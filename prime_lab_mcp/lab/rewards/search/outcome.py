"""What a search of a reward came to, as plain values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_lab_mcp.lab.rewards.observations import ScoredProbe
    from prime_lab_mcp.lab.rewards.search.attacker import AttackerOutcome
    from prime_lab_mcp.lab.rewards.search.held_out import HeldOutVerdict

DEFAULT_SECONDS = 10
"""The time limit of a search; a shorter one opens no gate."""
_REMEMBERED = 64
TURNED_OFF = "searches are turned off here"
"""The reason where no completions are allowed at all (`MOST_COMPLETIONS` of reward_search.py)."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A find that counts. `scored_probes` are its completions on held-out tasks, the best paid first."""

    recipe: str
    steps: tuple[str, ...]
    verdict: HeldOutVerdict
    scored_probes: tuple[ScoredProbe, ...]
    number: int
    """The number of completions that had been tried before."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """One search. `skipped` is the reason why nothing was searched; `ended` is why the search went no further."""

    skipped: str = ""
    ended: str = ""
    holes: tuple[Hole, ...] = ()
    completions: int = 0
    seconds: float = 0.0
    signals: int = 0
    """Branches of the code and levels of components that the search reached."""
    tasks: int = 0
    held_out: int = 0
    seed: int = 0
    remembered: bool = False
    faults: tuple[ScoredProbe, ...] = ()
    """Completions that hung or ended the process, in the search and again with the time that every probe has."""
    attacker: AttackerOutcome | None = None

    def as_json(self) -> Mapping[str, Any]:
        """The field `search` of the report's data."""
        if self.skipped:
            return {"ran": False, "why": self.skipped}
        data: dict[str, Any] = {
            "ran": True,
            "completions": self.completions,
            "seconds": round(self.seconds, 1),
            "reached": self.signals,
            "tasks": self.tasks,
            "held_out": self.held_out,
            "seed": self.seed,
            "ended": self.ended,
            "holes": [hole.recipe[:300] for hole in self.holes],
        }
        if self.attacker is not None:
            data["attacker"] = self.attacker.as_json()
        return data | ({"remembered": True} if self.remembered else {})


class RememberedSearches:
    """The searches of one server, by source, arguments, installed packages and time limit: one is as good as two."""

    def __init__(self) -> None:
        self._outcomes: OrderedDict[str, SearchOutcome] = OrderedDict()

    def get(self, key: str) -> SearchOutcome | None:
        """The outcome of an earlier search, marked as remembered."""
        known = self._outcomes.get(key)
        return None if known is None else replace(known, remembered=True)

    def put(self, key: str, outcome: SearchOutcome) -> None:
        """Remember a search that ran; of many, the latest."""
        if not outcome.skipped:
            self._outcomes[key] = outcome
            while len(self._outcomes) > _REMEMBERED:
                self._outcomes.popitem(last=False)
