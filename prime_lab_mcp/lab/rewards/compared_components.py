"""Compares two rewards component by component, from completions that both rewards have scored.

Components are matched by name, and renamed components by their scores. A component counts as equal only if some
completion earned it, every compared completion has the same score in both rewards, and its share of the weights is the
same. A component that no completion earned is reported as not reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.worker.description import RewardInfo
from prime_lab_mcp.lab.worker.scoring import Component

TOLERANCE = 1e-6
"""Largest difference between equal scores, which may have rounding errors."""
ComponentVerdict = Literal["equal", "differs", "weight-differs", "not-reached", "only-here", "only-there"]
Scores = Mapping[str, Component]
"""Maps the names of components to the scores of one completion."""


@dataclass(frozen=True, slots=True)
class ComparedComponent:
    """The comparison of one component. `weight` or `other_weight` is None if that reward has no such component."""

    name: str
    there: str
    """Name of the component in the other environment."""
    weight: float | None
    other_weight: float | None
    verdict: ComponentVerdict
    completions: int = 0
    """Number of completions with a score in both rewards."""
    differ: int = 0
    """Number of completions with different scores."""
    earned: int = 0
    """Number of completions with a score other than 0."""
    highest: float = 0.0
    """The highest score."""

    def as_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": quote(self.name, 80)[1:-1], "verdict": self.verdict}
        if self.there != self.name:
            data["there"] = quote(self.there, 80)[1:-1]
        return data | {
            "weight": self.weight,
            "other_weight": self.other_weight,
            "completions": self.completions,
            "differ": self.differ,
            "earned": self.earned,
            "highest": round(self.highest, 6),
        }


def compare_components(
    pairs: Sequence[tuple[Scores, Scores]], here: Sequence[RewardInfo], there: Sequence[RewardInfo]
) -> tuple[ComparedComponent, ...]:
    """Compare the weighted components of two rewards.

    `pairs` has the scores of each completion by this and by the other reward. `here` and `there` describe the
    components of the two rewards.
    """
    ours, theirs = _weights(here), _weights(there)
    matched = _matched(pairs, ours, theirs)
    usual = usual_ratio([(ours[h], theirs[t]) for h, t in matched])
    components = [_compared(pairs, h, t, ours[h], theirs[t], usual) for h, t in matched]
    components += [_alone(pairs, n, w, "only-here") for n, w in ours.items() if n not in {h for h, _ in matched}]
    components += [_alone(pairs, n, w, "only-there") for n, w in theirs.items() if n not in {t for _, t in matched}]
    return tuple(components)


def usual_ratio(weights: Sequence[tuple[float, float]]) -> float | None:
    """Return the most frequent ratio in pairs (weight here, weight there); None without a pair with a weight there.

    Of equally frequent ratios the first one is returned.
    """
    ratios = Counter(round(here / there, 9) for here, there in weights if there)
    return ratios.most_common(1)[0][0] if ratios else None


def same_ratio(here: float, there: float, usual: float | None) -> bool:
    """Whether two weights have the usual ratio."""
    return usual is not None and bool(there) and abs(here / there - usual) <= TOLERANCE * max(1.0, abs(usual))


def _weights(infos: Sequence[RewardInfo]) -> dict[str, float]:
    return {i.name: i.weight for i in infos if i.kind != "metric" and i.weight}


def _matched(
    pairs: Sequence[tuple[Scores, Scores]], ours: Mapping[str, float], theirs: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Return pairs (name here, name there) of the same component: equal names, then equal scores that are not all 0."""
    matches = [(name, name) for name in ours if name in theirs]
    taken = {name for name, _ in matches}
    for name in (n for n in ours if n not in theirs):
        scores = _scores(pairs, name, 0)
        for other in (n for n in theirs if n not in ours and n not in taken):
            if _agree(scores, _scores(pairs, other, 1)):
                matches.append((name, other))
                taken.add(other)
                break
    return matches


def _scores(pairs: Sequence[tuple[Scores, Scores]], name: str, side: int) -> list[float | None]:
    return [None if (part := pair[side].get(name)) is None else part.score for pair in pairs]


def _earned(scores: Sequence[float | None]) -> int:
    return sum(score is not None and abs(score) > TOLERANCE for score in scores)


def _agree(left: Sequence[float | None], right: Sequence[float | None]) -> bool:
    """Whether the scores are equal and not all 0."""
    known = [a for a, b in zip(left, right, strict=True) if b is not None]
    return bool(_earned(known)) and not _different(left, right)


def _different(left: Sequence[float | None], right: Sequence[float | None]) -> int:
    """Count the scores that differ. A completion without a score on one side does not count: its error is reported with
    the whole reward."""
    both = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    return sum(abs(a - b) > TOLERANCE for a, b in both)


def _compared(
    pairs: Sequence[tuple[Scores, Scores]], name: str, other: str, weight: float, there: float, usual: float | None
) -> ComparedComponent:
    """Compare one component that both rewards have."""
    ours, theirs = _scores(pairs, name, 0), _scores(pairs, other, 1)
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    differ = _different(ours, theirs)
    earned = sum(max(abs(a), abs(b)) > TOLERANCE for a, b in both)
    verdict: ComponentVerdict = "equal" if earned else "not-reached"
    if not same_ratio(weight, there, usual):
        verdict = "weight-differs"
    elif differ:
        verdict = "differs"
    highest = max((max(pair) for pair in both), default=0.0)
    return ComparedComponent(name, other, weight, there, verdict, len(both), differ, earned, highest)


def _alone(
    pairs: Sequence[tuple[Scores, Scores]], name: str, weight: float, verdict: Literal["only-here", "only-there"]
) -> ComparedComponent:
    """Describe a component that only one of the two rewards has."""
    scores = _scores(pairs, name, 0 if verdict == "only-here" else 1)
    known = [s for s in scores if s is not None]
    ours, theirs = (weight, None) if verdict == "only-here" else (None, weight)
    return ComparedComponent(name, name, ours, theirs, verdict, 0, 0, _earned(scores), max(known, default=0.0))
