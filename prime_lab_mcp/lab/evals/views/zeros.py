"""Every zero of an evaluation by class, with the rows behind it, what to do about it, and the token limit.

One pass, and memory that does not grow with the number of rollouts: counts, and the first rows of each class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.views.viewed import Evaluated, Viewed
from prime_lab_mcp.lab.evals.zeros.advice import RUNAWAY, advice_for, filled
from prime_lab_mcp.lab.evals.zeros.budget import Lengths
from prime_lab_mcp.lab.evals.zeros.classify import classify
from prime_lab_mcp.lab.evals.zeros.kinds import ZEROS, Cause, Classified, Zero
from prime_lab_mcp.lab.evals.zeros.turns import longest
from prime_lab_mcp.lab.report import Next
from prime_lab_mcp.lab.text import count, quote

ROWS = 2
"""Rows of each class."""
_MOST_ROWS = 10
"""Rows of all classes, unless the caller asks for more; every class keeps one."""
_TAIL = 120
_EVIDENCE = 200
_SLOWER = 8
"""Concurrency that is advised where tools or rollouts ran out of time."""


@dataclass(slots=True)
class _Seen:
    """What one pass collects."""

    rollouts: int = 0
    kinds: Counter[tuple[Zero, Cause]] = field(default_factory=Counter)
    setup: int = 0
    sums: dict[Zero, tuple[float, int]] = field(default_factory=dict)
    whole: tuple[float, int] = (0.0, 0)
    """Sum and number of rewards of rollouts that were not cut off."""
    cut: tuple[float, int] = (0.0, 0)
    rewarded_though_cut: int = 0
    lengths: Lengths = field(default_factory=Lengths)
    rows: dict[Zero, list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, kind: Zero) -> int:
        return sum(n for (k, _), n in self.kinds.items() if k == kind)


def zeros(evaluated: Evaluated, *, rows: int = ROWS) -> Viewed:
    """Every rollout that earned nothing. `rows` of each class are shown."""
    cap = evaluated.spec.max_tokens
    long = _long(evaluated)
    seen = _Seen()
    for number, rollout in enumerate(evaluated.rollouts()):
        found = classify(rollout, cap=cap, weights=evaluated.spec.weights, long=long)
        _count(seen, rollout, found)
        if found is not None and len(seen.rows.setdefault(found.kind, [])) < rows:
            seen.rows[found.kind].append(_row(number, rollout, found))
    missed = seen.kinds.total()
    advice = _advice(evaluated, seen)
    data = {
        "id": evaluated.id,
        "rollouts": seen.rollouts,
        "zeros": {kind: seen.of(kind) for kind in ZEROS},
        "shares": {kind: _share(seen.of(kind), seen.rollouts) for kind in ZEROS if seen.of(kind)},
        "mean_reward": _means(seen),
        "whose": {"model": missed - seen.setup, "setup": seen.setup},
        "truncated_but_rewarded": seen.rewarded_though_cut,
        "budget": seen.lengths.as_json(cap),
        "advice": advice,
        "examples": _examples(seen, rows),
    }
    return Viewed(_summary(seen, missed), data, next=_next(advice))


def _count(seen: _Seen, rollout: Rollout, found: Classified | None) -> None:
    seen.rollouts += 1
    tokens, exact = longest(rollout)
    cut = rollout.truncated or (found is not None and found.kind == "truncated" and found.cause != "turns")
    if rollout.error is None:
        seen.lengths.add(tokens, cut=cut, exact=exact)
    if found is not None:
        seen.kinds[found.kind, found.cause] += 1
        seen.setup += found.whose == "setup"
    if rollout.reward is None:
        return
    if cut:
        seen.cut = _more(seen.cut, rollout.reward)
        seen.rewarded_though_cut += found is None
    else:
        seen.whole = _more(seen.whole, rollout.reward)
    if found is not None:
        seen.sums[found.kind] = _more(seen.sums.get(found.kind, (0.0, 0)), rollout.reward)


def _more(so_far: tuple[float, int], reward: float) -> tuple[float, int]:
    return so_far[0] + reward, so_far[1] + 1


def _means(seen: _Seen) -> dict[str, float]:
    """`complete` is the baseline where cut replies count as zeros; then the cut ones, then each class."""
    found: dict[str, tuple[float, int]] = {"complete": seen.whole, "cut": seen.cut}
    for kind in ZEROS:
        found[kind] = seen.sums.get(kind, (0.0, 0))
    return {name: round(total / number, 4) for name, (total, number) in found.items() if number}


def _row(number: int, rollout: Rollout, found: Classified) -> dict[str, Any]:
    shown: dict[str, Any] = {"row": number, "task": rollout.task[:16], "why": found.evidence[:_EVIDENCE]}
    if rollout.id:
        shown["id"] = rollout.id[:32]
    if rollout.reward:
        shown["reward"] = round(rollout.reward, 4)
    if rollout.completion_text.strip() and found.kind != "infrastructure":
        shown["tail"] = quote(rollout.completion_text[-_TAIL:], _TAIL)
    return shown


def _examples(seen: _Seen, rows: int) -> dict[str, list[dict[str, Any]]]:
    each = rows if rows > ROWS else max(1, min(rows, _MOST_ROWS // max(1, len(seen.rows))))
    return {kind: seen.rows[kind][:each] for kind in ZEROS if kind in seen.rows}


def _advice(evaluated: Evaluated, seen: _Seen) -> list[dict[str, Any]]:
    """One for each class and cause, most frequent first."""
    spec = evaluated.spec
    values = {
        "environment": spec.environment,
        "model": spec.model,
        "max_tokens": seen.lengths.advised(spec.max_tokens) or (2 * spec.max_tokens if spec.max_tokens else None),
        "results": evaluated.id,
        "eval": evaluated.id,
        "view": "rollouts",
        "where": "truncated",
        "concurrency": min(_SLOWER, max(1, spec.concurrency // 2)),
    }
    shown = []
    for (kind, cause), number in seen.kinds.most_common():
        endless = (kind, cause) == ("truncated", "tokens") and seen.lengths.runaway(spec.max_tokens)
        advice = RUNAWAY if endless else advice_for(kind, cause)
        row: dict[str, Any] = {"class": kind, "rollouts": number, "whose": Classified(kind, "", cause).whose}
        row |= {"cause": cause} if cause else {}
        row |= {"advice": advice.text, "tool": advice.tool, "arguments": filled(advice, values)}
        shown.append(row)
    return shown


def _next(advice: list[dict[str, Any]]) -> tuple[Next, ...]:
    return tuple(Next(row["tool"], f"{row['class']}: {row['advice']}", row["arguments"]) for row in advice[:1])


def _summary(seen: _Seen, missed: int) -> str:
    if not missed:
        return f"All {count(seen.rollouts, 'rollout')} earned something."
    model = missed - seen.setup
    return (
        f"{missed:,} of {count(seen.rollouts, 'rollout')} earned nothing: {model:,} by what the model can do, "
        f"{seen.setup:,} by limits, endpoint, server or environment."
    )


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _long(evaluated: Evaluated) -> int | None:
    """Characters that only the longest hundredth reaches; of layouts that do not say how a reply ended."""
    rollouts = evaluated.rollouts()
    first = next(rollouts, None)
    if first is None or not _says_nothing(first):
        return None
    lengths: Counter[int] = Counter([len(first.completion_text)])
    lengths.update(len(r.completion_text) for r in _scored(rollouts))
    left = lengths.total() // 100
    for length in sorted(lengths, reverse=True):
        left -= lengths[length]
        if left < 0:
            return length + 1
    return None


def _scored(rollouts: Iterator[Rollout]) -> Iterator[Rollout]:
    return (r for r in rollouts if r.error is None)


def _says_nothing(rollout: Rollout) -> bool:
    return not any(key in rollout.record for key in ("nodes", "is_truncated", "truncated", "finish_reason"))
