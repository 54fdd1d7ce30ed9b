"""Records what the requests of a job may cost before the relay forwards them.

The record survives the supervisor: what a killed supervisor had forwarded counts with its most, and a resumed job has
only the rest of its limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_END = "."
"""The last word of a whole line. A kill may leave a line half-written."""
_TOKENS = ("prompt_tokens", "completion_tokens", "unreported_tokens")


class AdmittedCosts:
    """The record of all attempts of a job, one line for each change."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, cost: float, tokens: int) -> None:
        """Record US dollars and tokens, which are negative where less was billed than recorded. Raises OSError."""
        with self._path.open("a", encoding="ascii") as sink:
            sink.write(f"\n{cost!r} {tokens} {_END}")

    def totals(self) -> tuple[float, int]:
        """The most that was billed so far, in US dollars and tokens."""
        try:
            lines = self._path.read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            return 0.0, 0
        rows = [words for line in lines if len(words := line.split()) == 3 and words[2] == _END]
        return sum(float(row[0]) for row in rows), sum(int(row[1]) for row in rows)

    def at_least(self, progress: Mapping[str, Any]) -> dict[str, Any]:
        """The progress of a job with at least the recorded cost and tokens."""
        cost, tokens = self.totals()
        missing = tokens - sum(int(progress.get(name) or 0) for name in _TOKENS)
        changed = dict(progress)
        if missing > 0:
            changed["unreported_tokens"] = int(progress.get("unreported_tokens") or 0) + missing
        if cost > float(progress.get("cost") or 0.0):
            changed["cost"] = cost
        return changed
