"""Decides which components and metrics of a reward judge the form or the style of a completion rather than its answer.

The decision rests on the component's name, because nothing else is known about the component. A component judges the
form if its name has a word such as `format` or `parse`. It judges the style if its name has a word such as `length`,
`brevity` or `style`. A rollout that is rewarded only for form or style counts as unrewarded. `form_statistics` counts
how often the form was correct and how often those rollouts were solved.

The checks before a run, the evaluations and the training runs use this module, so that all of them classify a component
in the same way.
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
    """Return the words in a name, in lower case. `answer_format` and `answerFormat` have the same two words."""
    return frozenset(part.casefold() for part in _PART.findall(name))


@cache
def is_about_form(name: str) -> bool:
    """Whether a component judges the form of a completion, as `answer_format` and `xmlparser_format_reward` do.

    Only whole words count: `information_gain` is not about form. A metric's name may be a path such as `reward/format`;
    each part of the path counts as a name.
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
    """Whether a component may judge the answer: no word of its name is about form, length or style."""
    return not is_about_form(name) and not words(name) & _STYLE


@cache
def is_penalty(name: str) -> bool:
    """Whether zero is the best score of a component, as for `format_penalty` and `parse_errors`."""
    return _PENALTY.search(name) is not None


@cache
def pays_for_form(name: str, weight: float | None) -> bool:
    """Whether a component rewards a correct form. `weight` is None if the weight is unknown."""
    return is_about_form(name) and not is_penalty(name) and (weight is None or weight > 0)


@cache
def measures_form(name: str) -> bool:
    """Whether a metric is high for a correct form.

    Fewer names qualify than in `is_about_form`, because metrics count many other things.
    """
    return _FORM_METRIC.search(name) is not None and not is_penalty(name)


def earned_for_answer(rollout: Rollout, weights: Mapping[str, float] | None = None) -> bool:
    """Whether a scored rollout was rewarded for its answer, and not only for its form or style.

    If no component judges the answer, a positive reward is enough.
    """
    scores = answer_scores(rollout, weights)
    if not scores:
        return (rollout.reward or 0.0) > 0
    return max(scores.values()) > 0 and (rollout.reward is None or rollout.reward > 0)


def answer_scores(rollout: Rollout, weights: Mapping[str, float] | None = None) -> dict[str, float]:
    """Map the components that judge the answer and have a positive weight to their scores.

    `weights` has the weights for rollouts of v0, whose layout does not store them.
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
"""The lowest score of a correct form. XMLParser of verifiers 0.1 scores a partly correct form with 0.2 and more."""


@dataclass(frozen=True, slots=True)
class FormStatistics:
    """Counts of scored rollouts by two criteria: whether the form was correct, and whether the rollout was solved.

    `name` is the component or metric that judges the form, and `mean` is its mean score.
    """

    name: str
    mean: float
    correct_solved: int
    correct_unsolved: int
    broken_solved: int
    broken_unsolved: int
    broken_complete: int
    """Rollouts with a wrong form that no limit cut off."""
    complete: int
    """Rollouts that no limit cut off."""

    @property
    def solved_if_correct(self) -> float | None:
        """The share of rollouts with a correct form that were solved; None if there are no such rollouts."""
        correct = self.correct_solved + self.correct_unsolved
        return self.correct_solved / correct if correct else None

    @property
    def unparsed_rate(self) -> float | None:
        """The share of complete rollouts whose form is wrong."""
        return self.broken_complete / self.complete if self.complete else None

    def as_json(self) -> dict[str, Any]:
        share = self.solved_if_correct
        return {
            "name": self.name,
            "kept_solved": self.correct_solved,
            "kept_unsolved": self.correct_unsolved,
            "broken_solved": self.broken_solved,
            "broken_unsolved": self.broken_unsolved,
            "solved_if_kept": None if share is None else round(share, 4),
        }


def form_statistics(name: str, scores: Sequence[float], solved: Sequence[int], cut: Sequence[int]) -> FormStatistics:
    """Count rollouts by form and success.

    The sequences have one entry for each rollout: the score of the form (NaN if there is none), whether the rollout was
    solved, and whether a limit cut it off.
    """
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
