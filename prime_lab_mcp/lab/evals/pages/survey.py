"""The survey of an evaluation: all data from its rollouts that the picture and the report page show.

One pass over the rollouts collects counts, task means and at most one example rollout of each informative kind. Surveys
are cached in the job's folder under the sha256 of the results.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.distribution.sample import PASS_THRESHOLD
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.zeros.classify import classify_zero
from prime_lab_mcp.lab.rollouts.conversation import (
    GoldMention,
    conversation,
    gold,
    gold_mention,
    is_distinctive,
    searched_gold,
    task_name,
)
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout

_EPSILON = 1e-9
WINNER, CUT, GOLD_UNREWARDED = (
    "shortest winner",
    "rewarded though cut off",
    "no reward, though it holds the right answer",
)
_ZERO = "first of its class: {}"


@dataclass(frozen=True, slots=True)
class ExampleRollout:
    """One example rollout. `why` is the reason for showing it.

    All other texts come from the dataset, the model or the environment. They are quoted and cut.
    """

    why: str
    task: str
    reward: float | None
    prompt: str
    completion: str
    gold: str | None
    error: str | None
    completion_tokens: int


class ExampleCollector:
    """Collects at most one example rollout of each kind. `attainable` is the attainable reward."""

    def __init__(self, attainable: float) -> None:
        self._attainable = attainable
        self._rollouts: dict[str, Rollout] = {}

    def add(self, rollout: Rollout, zero: str | None) -> None:
        """Keep a rollout if it is the first or best example of a kind.

        `zero` is the class of a rollout that earned nothing, None for other rollouts.
        """
        if zero is not None:
            self._rollouts.setdefault(_ZERO.format(zero), rollout)
        if rollout.reward is None:
            return
        if rollout.reward >= PASS_THRESHOLD * self._attainable:
            best = self._rollouts.get(WINNER)
            if best is None or len(rollout.completion_text) < len(best.completion_text):
                self._rollouts[WINNER] = rollout
            if rollout.truncated:
                self._rollouts.setdefault(CUT, rollout)
        elif rollout.reward <= _EPSILON and GOLD_UNREWARDED not in self._rollouts and _holds_gold(rollout):
            self._rollouts[GOLD_UNREWARDED] = rollout

    def examples(self) -> tuple[ExampleRollout, ...]:
        """Return the examples. Those that suggest a flaw of the reward come first."""
        order = (GOLD_UNREWARDED, CUT, WINNER)
        kinds = [k for k in order if k in self._rollouts] + sorted(k for k in self._rollouts if k not in order)
        return tuple(_example(kind, self._rollouts[kind]) for kind in kinds)


def _holds_gold(rollout: Rollout) -> bool:
    """Whether the reply answers with the reference answer. Short references do not count, as they appear by chance."""
    reference = searched_gold(gold(rollout))
    return is_distinctive(reference) and gold_mention(reference, rollout.completion_text) is GoldMention.ANSWERED


def _example(why: str, rollout: Rollout) -> ExampleRollout:
    prompts = [m.text for m in conversation(rollout) if m.role == "user" and m.text]
    reference = gold(rollout)
    return ExampleRollout(
        why=why,
        task=quote(task_name(rollout)["task"]),
        reward=rollout.reward,
        prompt=quote(prompts[0], 200) if prompts else "",
        completion=quote(rollout.completion_text, 300),
        gold=quote(reference, 120) if reference is not None else None,
        error=quote(rollout.error, 200) if rollout.error is not None else None,
        completion_tokens=rollout.completion_tokens,
    )


STEPS = 20
"""The histogram has bars centred at 0, 1/20, ..., 1 of the attainable reward. So 0 and 1 have bars of their own."""
MOST_BARS = 120
"""Most bars for task means. With more tasks, one bar shows several tasks."""
_VERSION = 3
"""Part of a survey's file name. Increase it if a change gives another survey for the same results."""


@dataclass(frozen=True, slots=True)
class TaskBar:
    """One bar of the picture: the number of its tasks (`width`), and their mean reward as a share of the attainable."""

    width: int
    mean: float


@dataclass(frozen=True, slots=True)
class EvaluationSurvey:
    """Counts of rollouts, task means from worst to best, and a few informative rollouts."""

    rollouts: int
    failed: int
    """Rollouts without a finite reward, because the machinery failed or the reward is no number."""
    bars: tuple[int, ...]
    """Numbers of scored rollouts by share of the attainable reward, in `STEPS` + 1 bars."""
    below: int
    """Scored rollouts with a reward under 0."""
    above: int
    """Scored rollouts with more than the attainable reward."""
    tasks: tuple[TaskBar, ...]
    """Task means from worst to best."""
    zeros: Mapping[str, int]
    """Numbers of rollouts that earned nothing, by class."""
    telling: tuple[ExampleRollout, ...]
    """Informative example rollouts."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> EvaluationSurvey:
        """Return the survey from its JSON form, the value of `asdict`. Raises TypeError or KeyError for other data."""
        fields = dict(raw)
        fields["bars"] = tuple(fields["bars"])
        fields["tasks"] = tuple(TaskBar(**bar) for bar in fields["tasks"])
        fields["telling"] = tuple(ExampleRollout(**row) for row in fields["telling"])
        return cls(**fields)


def survey_rollouts(
    rollouts: Iterable[Rollout], attainable: float, cap: int | None = None, weights: Mapping[str, float] | None = None
) -> EvaluationSurvey:
    """Return the survey of some rollouts.

    `attainable` is the attainable reward, `cap` the token limit of one reply. `weights` are the weights of the rewards,
    for results that do not store them. Memory grows with the number of tasks, not of rollouts.
    """
    total = failed = below = above = 0
    bars = array("q", [0] * (STEPS + 1))
    sums: dict[str, list[float]] = {}
    zeros: Counter[str] = Counter()
    examples = ExampleCollector(attainable)
    for rollout in rollouts:
        total += 1
        classified = classify_zero(rollout, cap=cap, weights=weights)
        zero = classified.kind if classified is not None else None
        if zero is not None:
            zeros[zero] += 1
        examples.add(rollout, zero)
        if rollout.reward is None or rollout.nonfinite:
            failed += 1
            continue
        value = rollout.reward / attainable
        task = sums.setdefault(rollout.task, [0.0, 0.0])
        task[0] += value
        task[1] += 1
        if -1e-9 <= value <= 1 + 1e-9:
            bars[math.floor(value * STEPS + 0.5)] += 1
        elif value < 0:
            below += 1
        else:
            above += 1
    means = sorted(total / n for total, n in sums.values())
    return EvaluationSurvey(
        total, failed, tuple(bars), below, above, tuple(_bars(means)), dict(zeros), examples.examples()
    )


def _bars(means: list[float]) -> Iterable[TaskBar]:
    """Yield at most `MOST_BARS` bars with equally many tasks each; the last bar may have fewer."""
    width = -(-len(means) // MOST_BARS) or 1
    for start in range(0, len(means), width):
        part = means[start : start + width]
        yield TaskBar(len(part), math.fsum(part) / len(part))


def cached_survey(results: Path, sha256: str, attainable: float, folder: Path, spec: EvalSpec) -> EvaluationSurvey:
    """Return the survey of a results file from the cache in `folder`, or make it and write it there.

    `sha256` is the hash of the results, `attainable` the attainable reward.
    """
    name = hashlib.sha256(f"{_VERSION} {sha256} {attainable!r}".encode()).hexdigest()[:16]
    cache = folder / f"survey-{name}.json"
    try:
        return EvaluationSurvey.from_json(json.loads(cache.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        survey = survey_rollouts(read_rollouts(results), attainable, spec.max_tokens, spec.weights)
    with suppress(OSError):  # a full disk only prevents caching
        replace_file(cache, json.dumps(asdict(survey)))
    return survey


def replace_file(path: Path, text: str) -> None:
    """Write a file atomically: a concurrent reader sees the old content or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
