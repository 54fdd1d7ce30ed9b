"""Takes in rollouts: one pass, one row of plain numbers each, in columns, so that a million of them need some 50 MB."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prime_lab_mcp.lab.distribution.forms import is_form, is_form_metric
from prime_lab_mcp.lab.evals.results import Rollout


@dataclass(slots=True)
class Sample:
    """Everything judged about a set of rollouts. Rewards are as the environment gave them."""

    index: dict[str, int] = field(default_factory=dict)
    """Every task that was seen, to its number."""
    rollouts: int = 0
    errors: int = 0
    nonfinite: int = 0
    truncated: int = 0
    prompts: array[float] = field(default_factory=lambda: array("f"))
    """Prompt tokens of every scored rollout."""
    weights: dict[str, float | None] = field(default_factory=dict)
    stated: float = 0.0
    """The largest sum of positive weights that one rollout stated."""
    # One entry per scored rollout:
    task: array[int] = field(default_factory=lambda: array("l"))
    rewards: array[float] = field(default_factory=lambda: array("d"))
    lengths: array[float] = field(default_factory=lambda: array("f"))
    cut: array[int] = field(default_factory=lambda: array("b"))
    scores: dict[str, array[float]] = field(default_factory=dict)
    """Component to its scores, NaN where a rollout had none; shorter where the last ones had none."""
    form_metric: array[float] = field(default_factory=lambda: array("d"))
    """A metric that says whether the form was kept, of environments that do not reward it."""
    form_name: str | None = None

    @property
    def completed(self) -> int:
        return self.rollouts - self.errors

    @property
    def scored(self) -> int:
        return len(self.rewards)

    @property
    def form(self) -> tuple[str, array[float]] | None:
        """The component that rewards form, by name and never the only one; else a metric of it."""
        if len(self.scores) > 1:
            for name, column in self.scores.items():
                if is_form(name, self.weights[name]):
                    return name, column
        if self.form_name is None or self.form_name in self.scores:
            return None
        return self.form_name, self.form_metric


def collect(rollouts: Iterable[Rollout], weights: Mapping[str, float]) -> Sample:
    """Take in rollouts. Failed ones are counted and otherwise left out: an error is not a wrong answer."""
    sample = Sample()
    index = sample.index
    for rollout in rollouts:
        sample.rollouts += 1
        number = index.setdefault(rollout.task, len(index))
        if rollout.error is not None:
            sample.errors += 1
            continue
        sample.truncated += rollout.truncated
        if rollout.reward is None or rollout.nonfinite:
            sample.nonfinite += 1
            continue
        sample.task.append(number)
        sample.rewards.append(rollout.reward)
        sample.lengths.append(rollout.completion_tokens)
        sample.prompts.append(rollout.prompt_tokens)
        sample.cut.append(rollout.truncated)
        if rollout.components:
            _scores(sample, rollout, weights)
        if rollout.metrics:
            _metrics(sample, rollout)
    return sample


def _scores(sample: Sample, rollout: Rollout, weights: Mapping[str, float]) -> None:
    stated = 0.0
    row = len(sample.rewards) - 1
    columns = sample.scores
    for name, (score, weight) in rollout.components.items():
        if weight is None:
            weight = weights.get(name)
            if weight is None and weights:
                continue  # v0 lists metrics of weight nothing among its reward functions
        if weight is not None and weight > 0:
            stated += weight
        sample.weights[name] = weight
        column = columns.get(name)
        if column is None:
            column = columns[name] = array("d")
        if (missing := row - len(column)) > 0:
            column.extend([math.nan] * missing)
        column.append(score)
    if stated > sample.stated:
        sample.stated = stated


def _metrics(sample: Sample, rollout: Rollout) -> None:
    if sample.form_name is None:
        sample.form_name = next((n for n in rollout.metrics if is_form_metric(n)), None)
        if sample.form_name is None:
            return
    row = len(sample.rewards) - 1
    score = rollout.metrics.get(sample.form_name)
    if score is not None:
        if len(sample.form_metric) < row:
            sample.form_metric.extend([math.nan] * (row - len(sample.form_metric)))
        sample.form_metric.append(score)


def order(sample: Sample) -> Iterator[array[int]]:
    """The rows of each task that has any, in order of first appearance (a counting sort)."""
    starts = array("l", [0]) * (len(sample.index) + 1)
    for number in sample.task:
        starts[number + 1] += 1
    for number in range(len(sample.index)):
        starts[number + 1] += starts[number]
    places, rows = array("l", starts), array("l", [0]) * len(sample.task)
    for row, number in enumerate(sample.task):
        rows[places[number]] = row
        places[number] += 1
    for number in range(len(sample.index)):
        if starts[number] < starts[number + 1]:
            yield rows[starts[number] : starts[number + 1]]
