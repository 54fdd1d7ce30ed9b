"""Counts what was tried and what went wrong, and prints both."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from dataclasses import dataclass, field

MOST_SHOWN = 12
FLAWS = ("lost verdicts", "double sends", "orphans", "crashes", "unanswered", "growth")
"""Kinds of what must never happen."""


@dataclass(slots=True)
class Tally:
    """Counts of what was tried, and the flaws that were met. Safe between threads."""

    tried: Counter[str] = field(default_factory=Counter)
    flaws: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in FLAWS})
    skipped: list[str] = field(default_factory=list)
    measured: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self.tried[what] += number

    def flaw(self, kind: str, what: str) -> None:
        with self._lock:
            self.flaws[kind].append(what)
            print(f"{kind}: {what[:2500]}", file=sys.stderr, flush=True)

    @property
    def sound(self) -> bool:
        return not any(self.flaws.values())

    def summary(self) -> str:
        lines = ["tried:"]
        lines += [f"  {number:>8,}  {what}" for what, number in sorted(self.tried.items())]
        lines += [f"  {what}: {value}" for what, value in self.measured.items()]
        lines += [f"  not tried: {why}" for why in self.skipped]
        lines.append("met:")
        for kind, met in self.flaws.items():
            lines.append(f"  {len(met):>8,}  {kind}")
            lines += [f"            {one[:400]}" for one in met[:MOST_SHOWN]]
        return "\n".join(lines)
