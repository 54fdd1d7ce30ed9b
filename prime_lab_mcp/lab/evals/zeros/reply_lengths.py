"""Decides from the lengths of completions whether the token limit was high enough, and which limit to use otherwise."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from prime_lab_mcp.lab.distribution.summary import was_cut_early

_FINISH = 0.99
"""Share of the completions that should finish within the advised limit."""
_ROUND = 256
"""The advised limit is a multiple of this."""
_LEAST, _MOST = 1.25, 8.0
"""Least and greatest advised limit, as multiples of the present limit. The lengths do not support an estimate
beyond."""
_RUNAWAY_FACTOR = 4
"""If the limit is this many times the 99 % quantile of the finished completions, truncated completions ran away, and a
higher limit would not help."""
_ENOUGH_FINISHED = 20
"""Least number of finished completions for that conclusion."""
_UNKNOWN_MEDIAN_FACTOR = 4.0
"""Advised limit as a multiple of the present limit, if most completions were truncated and their median is unknown."""


@dataclass(slots=True)
class ReplyLengths:
    """The lengths of completions in tokens. The token limit applies to one reply, so the longest reply counts."""

    finished: Counter[int] = field(default_factory=Counter)
    """Number of rollouts by the tokens of their longest reply, for rollouts that were not truncated."""
    cut: int = 0
    """Number of truncated rollouts."""
    longest_cut: int = 0
    """Tokens of the longest reply of a truncated rollout; 0 if none is known."""
    exact: bool = True
    """False if only the sum over the replies is known for some rollouts."""

    def add(self, tokens: int, *, cut: bool, exact: bool) -> None:
        """Add one rollout. `tokens` is the length of its longest reply; `cut` says whether it was truncated."""
        if cut:
            self.cut += 1
            self.longest_cut = max(self.longest_cut, tokens)
        elif tokens > 0:
            self.finished[tokens] += 1
            self.exact &= exact

    def quantile(self, share: float) -> int | None:
        """Return the length that this share of the finished completions does not exceed. None without any."""
        total = self.finished.total()
        cumulated = 0
        for tokens in sorted(self.finished):
            cumulated += self.finished[tokens]
            if cumulated >= share * total:
                return tokens
        return None

    def early(self, cap: int | None) -> bool:
        """Whether no truncated completion came near the limit `cap`, so that another limit held."""
        return was_cut_early(self.longest_cut, cap) and self.exact

    def runaway(self, cap: int | None) -> bool:
        """Whether the truncated completions did not come to an end, because others are far below the limit `cap`."""
        longest = self.quantile(_FINISH)
        is_enough = self.finished.total() >= _ENOUGH_FINISHED and self.exact
        return bool(cap and self.cut and is_enough and longest is not None and longest * _RUNAWAY_FACTOR <= cap)

    def advised(self, cap: int | None) -> int | None:
        """Return a token limit within which 99 % of the completions should finish.

        The model is a log-normal distribution of lengths, of which only those up to the present limit `cap` are
        observed. Its two parameters follow from the median and from the share of truncated completions. None if the
        present limit is high enough, or if the truncated completions ran away.
        """
        finished, total = self.finished.total(), self.finished.total() + self.cut
        if not cap or not self.cut or self.cut <= (1 - _FINISH) * total or self.runaway(cap):
            return None
        if self.early(cap):
            return None
        share = finished / total
        median = self.quantile(0.5 / share) if share > 0.5 else None
        if median is None or not self.exact:
            factor = _UNKNOWN_MEDIAN_FACTOR if share <= 0.5 else 2.0
        else:
            spread = math.log(cap / median) / NormalDist().inv_cdf(share) if cap > median else 0.0
            factor = median * math.exp(NormalDist().inv_cdf(_FINISH) * spread) / cap
        return math.ceil(cap * min(_MOST, max(_LEAST, factor)) / _ROUND) * _ROUND

    def as_json(self, cap: int | None) -> dict[str, Any]:
        """Return the lengths and the advised token limit for the data of the view. `cap` is the present limit."""
        fields: dict[str, Any] = {
            "cap": cap,
            "cut": self.cut,
            "finished": self.finished.total(),
            "finished_p50": self.quantile(0.5),
            "finished_p95": self.quantile(0.95),
            "finished_p99": self.quantile(0.99),
            "advised_max_tokens": self.advised(cap),
        }
        if not self.exact:
            fields["lengths"] = "sums over the replies of a rollout; the layout does not tell them apart"
        return fields
