"""Defines the outcome of a search, and remembers the outcomes of one server."""

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
"""The default time limit of a search in seconds. A trial with a shorter search is not evidence for a gate."""
_REMEMBERED = 64
"""Number of outcomes that are remembered."""
TURNED_OFF = "searches are turned off here"
"""The reason for skipping a search if no completions are allowed (`MOST_COMPLETIONS` of reward_search.py is 0)."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A hole in the reward: a find of the search that was confirmed on held-out tasks."""

    recipe: str
    """The recipe as text for people."""
    steps: tuple[str, ...]
    """The first recipe and the mutations that led to the find."""
    verdict: HeldOutVerdict
    scored_probes: tuple[ScoredProbe, ...]
    """The completions with the highest rewards on held-out tasks, the highest first."""
    number: int
    """Number of completions that the search had scored when it made the find."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The outcome of one search."""

    skipped: str = ""
    """The reason why no search was run; empty if one was run."""
    ended: str = ""
    """The reason why the search ended."""
    holes: tuple[Hole, ...] = ()
    completions: int = 0
    """Number of scored completions."""
    seconds: float = 0.0
    signals: int = 0
    """Number of branches of the code and of component scores that the search reached."""
    tasks: int = 0
    """Number of tasks on which the search scored completions."""
    held_out: int = 0
    """Number of held-out tasks for judging finds."""
    seed: int = 0
    remembered: bool = False
    """The outcome comes from an earlier call with the same inputs."""
    faults: tuple[ScoredProbe, ...] = ()
    """Completions that hung or ended the process both in the search and with the longer time limit of probes."""
    attacker: AttackerOutcome | None = None

    def as_json(self) -> Mapping[str, Any]:
        """Return the field `search` of the report's data."""
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
    """Remembers the outcomes of searches, because a search with the same inputs would have the same outcome.

    The key is made of the source, arguments, installed packages and time limit.
    """

    def __init__(self) -> None:
        self._outcomes: OrderedDict[str, SearchOutcome] = OrderedDict()

    def get(self, key: str) -> SearchOutcome | None:
        """Return the outcome of an earlier search, marked as remembered; None if there is none."""
        known = self._outcomes.get(key)
        return None if known is None else replace(known, remembered=True)

    def put(self, key: str, outcome: SearchOutcome) -> None:
        """Remember the outcome of a search that was run. Only the latest 64 outcomes are remembered."""
        if not outcome.skipped:
            self._outcomes[key] = outcome
            while len(self._outcomes) > _REMEMBERED:
                self._outcomes.popitem(last=False)
