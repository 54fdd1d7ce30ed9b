"""What another reward made of the same rollouts: how many earn more or less, and which show it best."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.rewards.observed import same
from prime_lab_mcp.lab.text import count, quote, rounded

_EXAMPLES = 3
"""Rollouts shown for each direction: those that changed most."""
_TAIL = 200


@dataclass
class Changes:
    """Counted rollout by rollout. `errors`: the present reward raised on them; they have no reward now."""

    origin: str
    up: int = 0
    down: int = 0
    unchanged: int = 0
    errors: int = 0
    recovered: int = 0
    """The former reward raised on them, or was no number; they have one now."""
    failed_before: int = 0
    """Never answered to the end (the endpoint, the harness): kept as they are."""
    excluded: int = 0
    before: float = 0.0
    after: float = 0.0
    shown: dict[str, list[tuple[float, int, dict[str, Any]]]] = field(default_factory=dict)
    _number: int = 0

    def add(self, old: Rollout, new: Rollout) -> None:
        """One rollout as it was stored and as it is now."""
        if new.reward is None:
            self.errors += 1
            self._show("errors", 1.0, old, new)
        elif old.reward is None:
            self.recovered += 1
            self._show("recovered", new.reward, old, new)
        else:
            self.before += old.reward
            self.after += new.reward
            if same(old.reward, new.reward):
                self.unchanged += 1
            else:
                rises = new.reward > old.reward
                self.up, self.down = self.up + rises, self.down + (not rises)
                self._show("up" if rises else "down", abs(new.reward - old.reward), old, new)

    def _show(self, kind: str, weight: float, old: Rollout, new: Rollout) -> None:
        self._number += 1
        kept = self.shown.setdefault(kind, [])
        rank = (weight, -self._number)
        if len(kept) < _EXAMPLES:
            heapq.heappush(kept, (*rank, _example(old, new)))
        elif rank > kept[0][:2]:
            heapq.heapreplace(kept, (*rank, _example(old, new)))

    @property
    def compared(self) -> int:
        return self.up + self.down + self.unchanged

    def as_json(self) -> dict[str, Any]:
        """The `rescored` part of a report."""
        told: dict[str, Any] = {
            "from": self.origin,
            "changed": self.up + self.down,
            "up": self.up,
            "down": self.down,
            "unchanged": self.unchanged,
            "errors": self.errors,
            "excluded": self.excluded,
            "mean_before": _mean(self.before, self.compared),
            "mean_after": _mean(self.after, self.compared),
            "examples": [
                row for kind in ("up", "down", "recovered", "errors") for _, _, row in sorted(self.shown.get(kind, []),
                reverse=True, key=lambda e: e[:2])
            ],
        }  # fmt: skip
        return told | {n: v for n in ("recovered", "failed_before") if (v := getattr(self, n))}


def direction(told: Mapping[str, Any]) -> str:
    """One sentence on what changed and which way."""
    parts = [f"{told['up']} earn more", f"{told['down']} less", f"{told['unchanged']} the same"]
    if told.get("recovered"):
        parts.append(f"{told['recovered']} have a reward that had none")
    if told["errors"]:
        parts.append(f"on {told['errors']} the reward fails")
    if told["excluded"]:
        parts.append(f"{told['excluded']} are left out")
    means = ""
    if told["mean_before"] is not None:
        means = f"; mean reward {told['mean_before']:.3f} before, {told['mean_after']:.3f} now"
    whole = sum(told[n] for n in ("changed", "unchanged", "errors", "excluded")) + told.get("recovered", 0)
    return f"Of {count(whole, 'stored rollout')} of {told['from']}, {', '.join(parts)}{means}."


def _mean(total: float, number: int) -> float | None:
    return round(total / number, 4) if number else None


def _example(old: Rollout, new: Rollout) -> dict[str, Any]:
    """Names of components and texts are foreign."""
    names = list(dict.fromkeys((*old.components, *new.components)))[:8]
    parts = {n[:80]: [_score(old, n), _score(new, n)] for n in names if _score(old, n) != _score(new, n)}
    shown: dict[str, Any] = {
        "task": new.task[:80],
        "before": rounded(old.reward),
        "after": rounded(new.reward),
        "components": parts,
        "reply": quote(new.completion_text[-_TAIL:], _TAIL),
    }
    return shown | ({"error": quote(new.error, 200)} if new.error else {})


def _score(rollout: Rollout, name: str) -> float | None:
    return rounded(rollout.components[name][0]) if name in rollout.components else None
