"""Which component or metric says whether a completion kept to the form; and what follows from the form being kept."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from prime_lab_mcp.lab.evals.earned import judges_form

KEPT = 0.5
"""Score from which on the form counts as kept (XMLParser of verifiers 0.1 gives 0.2 and more for parts of it)."""
_REVERSED = re.compile(r"penalt|error|fail|invalid|malformed|missing|broken|bad|unpars|not_", re.I)
_METRIC = re.compile(r"(?:^|_)(?:format|parsed|well_?formed)(?:_(?:ok|kept|valid|reward|score|rate|func))*$", re.I)


@cache
def is_form(name: str, weight: float | None) -> bool:
    """Whether a component pays for form: by its name; a penalty is none, its zeros are good."""
    return judges_form(name) and not _REVERSED.search(name) and (weight is None or weight > 0)


@cache
def is_form_metric(name: str) -> bool:
    return bool(_METRIC.search(name)) and not _REVERSED.search(name)


@dataclass(frozen=True, slots=True)
class Form:
    """How often the form was kept, crossed with whether the rollout was solved. Counts of scored rollouts."""

    name: str
    mean: float
    kept_solved: int
    kept_unsolved: int
    broken_solved: int
    broken_unsolved: int
    broken_complete: int
    """Of the broken ones, those that were not cut off."""
    complete: int

    @property
    def solved_if_kept(self) -> float | None:
        """P(solved | form kept): what the model can do once it writes its answers as asked."""
        kept = self.kept_solved + self.kept_unsolved
        return self.kept_solved / kept if kept else None

    @property
    def unparsed_rate(self) -> float | None:
        """Share of completions that broke the form without being cut off."""
        return self.broken_complete / self.complete if self.complete else None

    def as_json(self) -> dict[str, Any]:
        share = self.solved_if_kept
        return {
            "name": self.name,
            "kept_solved": self.kept_solved,
            "kept_unsolved": self.kept_unsolved,
            "broken_solved": self.broken_solved,
            "broken_unsolved": self.broken_unsolved,
            "solved_if_kept": None if share is None else round(share, 4),
        }


def form(name: str, scores: Sequence[float], rewards: Sequence[float], cut: Sequence[int], solved: float) -> Form:
    """`solved` is the reward from which on a rollout counts as solved. A score of 0 is a zero; NaN is no score."""
    cells = [0, 0, 0, 0]
    complete = broken = known = 0
    total = 0.0
    for score, reward, truncated in zip(scores, rewards, cut, strict=False):
        if score != score:
            continue
        known += 1
        total += score
        kept = score >= KEPT
        cells[(0 if kept else 2) + (reward < solved)] += 1
        if not truncated:
            complete += 1
            broken += not kept
    mean = total / known if known else math.nan
    return Form(name, mean, cells[0], cells[1], cells[2], cells[3], broken, complete)
