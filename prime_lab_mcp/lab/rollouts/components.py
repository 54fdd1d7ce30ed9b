"""Decides which components and metrics of a reward judge the form or the style of a completion rather than its answer.

A component judges the form if its name says so (`answer_format`, `parse_reward`), and the style if its name speaks of
length, brevity or style. A rollout that is paid only for its form or style counts as unrewarded. `form_statistics`
counts how often the form was correct and how often those rollouts were solved.

Checks before a run, evaluations and training runs all use this module, so that they classify a component alike. The
name is foreign text and the only evidence there is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from prime_lab_mcp.lab.rollouts.rollout import Rollout

_FORM = frozenset(
    {
        "format",
        "formatted",
        "formatting",
        "parse",
        "parsed",
        "parses",
        "parser",
        "parsing",
        "parsable",
        "parseable",
        "wellformed",
        "syntax",
    }
)
_IN_FORM = re.compile(r"(?:^|_)(?:in|well)_?form(?:ed)?(?:_|$)|^form(?:_(?:reward|score|func|ok))*$", re.I)
_PENALTY = re.compile(r"penalt|error|fail|invalid|malformed|missing|broken|bad|unpars|not_", re.I)
_FORM_METRIC = re.compile(r"(?:^|_)(?:format|parsed|well_?formed)(?:_(?:ok|kept|valid|reward|score|rate|func))*$", re.I)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@cache
def words(name: str) -> frozenset[str]:
    """Return the words in a name: `answer_format` and `answerFormat` have two."""
    return frozenset(part.casefold() for part in _PART.findall(name))


@cache
def is_about_form(name: str) -> bool:
    """Whether a component judges the form of a completion: `answer_format`, `xmlparser_format_reward`.

    Only whole words count: `information_gain` is not about form. A metric of a run may be a path; each part of the path
    counts as a name.
    """
    return bool(words(name) & _FORM) or any(_IN_FORM.search(part) for part in name.split("/"))


_STYLE = frozenset(
    {
        "brevity",
        "brief",
        "concise",
        "conciseness",
        "length",
        "markdown",
        "overlong",
        "repetition",
        "repetitive",
        "style",
        "terse",
        "tone",
        "verbosity",
        "xml",
        "xmlcount",
    }
)


@cache
def judges_answer(name: str) -> bool:
    """Whether a component may judge the answer: its name speaks neither of form nor of length, brevity or style."""
    return not is_about_form(name) and not words(name) & _STYLE


@cache
def is_penalty(name: str) -> bool:
    """Whether zero is the good score of a component: `format_penalty`, `parse_errors`."""
    return _PENALTY.search(name) is not None


@cache
def pays_for_form(name: str, weight: float | None) -> bool:
    """Whether a component rewards a correct form. `weight` is None where the weight is unknown."""
    return is_about_form(name) and not is_penalty(name) and (weight is None or weight > 0)


@cache
def measures_form(name: str) -> bool:
    """Whether a metric is high for a correct form.

    The test is narrower than the one for components, because metrics count many other things.
    """
    return _FORM_METRIC.search(name) is not None and not is_penalty(name)


def earned_for_answer(rollout: Rollout, weights: Mapping[str, float] | None = None) -> bool:
    """Whether a scored rollout was rewarded for its answer and not only for its form or style."""
    scores = answer_scores(rollout, weights)
    if not scores:
        return (rollout.reward or 0.0) > 0
    return max(scores.values()) > 0 and (rollout.reward is None or rollout.reward > 0)


def answer_scores(rollout: Rollout, weights: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the scores of the components with a positive weight that judge the answer, not its form or style.

    `weights` supplies the weights for layouts that do not store them (v0).
    """
    scores = {}
    for name, (score, weight) in rollout.components.items():
        if weight is None:
            # v0 stores the number of tool calls among the scores.
            weight = 0.0 if name.endswith("_calls") else (weights or {}).get(name, 0.0 if weights else 1.0)
        if weight > 0 and judges_answer(name):
            scores[name] = score
    return scores


FORM_THRESHOLD = 0.5
"""Score from which on a form counts as correct. XMLParser of verifiers 0.1 gives 0.2 and more for a partly correct
form."""


@dataclass(frozen=True, slots=True)
class FormStatistics:
    """How often the form of a component was correct, crossed with whether the rollout was solved.

    All counts are of scored rollouts.
    """

    name: str
    mean: float
    kept_solved: int
    kept_unsolved: int
    broken_solved: int
    broken_unsolved: int
    broken_complete: int
    """Rollouts with a broken form that were not cut off."""
    complete: int

    @property
    def solved_if_kept(self) -> float | None:
        """P(solved | form correct): how often the model solves a task when its answer has the requested form."""
        kept = self.kept_solved + self.kept_unsolved
        return self.kept_solved / kept if kept else None

    @property
    def unparsed_rate(self) -> float | None:
        """Share of the complete rollouts whose form is broken."""
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


def form_statistics(name: str, scores: Sequence[float], solved: Sequence[int], cut: Sequence[int]) -> FormStatistics:
    """Count form against success. The sequences have one entry per rollout; a score of NaN means no score."""
    cells = [0, 0, 0, 0]
    complete = broken = known = 0
    total = 0.0
    for score, success, truncated in zip(scores, solved, cut, strict=False):
        if score != score:
            continue
        known += 1
        total += score
        correct = score >= FORM_THRESHOLD
        cells[(0 if correct else 2) + (not success)] += 1
        if not truncated:
            complete += 1
            broken += not correct
    mean = total / known if known else math.nan
    return FormStatistics(name, mean, cells[0], cells[1], cells[2], cells[3], broken, complete)
