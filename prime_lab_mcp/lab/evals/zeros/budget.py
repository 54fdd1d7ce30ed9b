"""Whether the token limit was enough, and which one would be: told by the lengths of the completions that ended."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

_FINISH = 0.99
"""Share of the completions that the advised limit lets finish."""
_ROUND = 256
_LEAST, _MOST = 1.25, 8.0
"""Bounds of the advised limit, as multiples of the one that was too small: further than that, nothing was seen."""
_APART = 4
"""Where the limit is this many times what 99 % of the finished completions took, it is not what the others lack."""
_KNOWN = 20
"""Finished completions from which on that can be said."""
_BLIND = 4.0
"""Where most completions were cut, nothing is known of their median: try this multiple and look again."""


@dataclass(slots=True)
class Lengths:
    """Tokens of the longest reply of each rollout, because a limit holds for each reply. Counted, so never large."""

    finished: Counter[int] = field(default_factory=Counter)
    cut: int = 0
    exact: bool = True

    def add(self, tokens: int, *, cut: bool, exact: bool) -> None:
        if cut:
            self.cut += 1
        elif tokens > 0:
            self.finished[tokens] += 1
            self.exact &= exact

    def quantile(self, share: float) -> int | None:
        """The length that this share of the finished completions does not exceed."""
        total = self.finished.total()
        seen = 0
        for tokens in sorted(self.finished):
            seen += self.finished[tokens]
            if seen >= share * total:
                return tokens
        return None

    def runaway(self, cap: int | None) -> bool:
        """Whether those that were cut ran on without end, far beyond what any other completion took."""
        longest = self.quantile(_FINISH)
        known = self.finished.total() >= _KNOWN and self.exact
        return bool(cap and self.cut and known and longest is not None and longest * _APART <= cap)

    def advised(self, cap: int | None) -> int | None:
        """A limit that lets 99 % finish; None where the present one does, or where nothing is known.

        Lengths are taken as log-normal, known only up to the limit: the median of all completions and the share that
        passed the limit give its two parameters.
        """
        finished, whole = self.finished.total(), self.finished.total() + self.cut
        if not cap or not self.cut or self.cut <= (1 - _FINISH) * whole or self.runaway(cap):
            return None
        share = finished / whole
        median = self.quantile(0.5 / share) if share > 0.5 else None
        if median is None or not self.exact:
            factor = _BLIND if share <= 0.5 else 2.0
        else:
            spread = math.log(cap / median) / NormalDist().inv_cdf(share) if cap > median else 0.0
            factor = median * math.exp(NormalDist().inv_cdf(_FINISH) * spread) / cap
        return math.ceil(cap * min(_MOST, max(_LEAST, factor)) / _ROUND) * _ROUND

    def as_json(self, cap: int | None) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "cap": cap,
            "cut": self.cut,
            "finished": self.finished.total(),
            "finished_p50": self.quantile(0.5),
            "finished_p95": self.quantile(0.95),
            "finished_p99": self.quantile(0.99),
            "advised_max_tokens": self.advised(cap),
        }
        if not self.exact:
            shown["lengths"] = "sums over the replies of a rollout; the layout does not tell them apart"
        return shown
