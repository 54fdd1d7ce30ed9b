"""Chooses group size, batch size and number of steps, and estimates the share of usable groups at another group size.

A group is the rollouts of one task in a step. A group is usable if it has both solved and failed rollouts: only then do
the rewards differ, and the group has a gradient.

The estimate fits a beta-binomial distribution to the mean reward and the share of usable groups that an evaluation
measured. With partial credit, more groups are usable than estimated.

The recipes are prime-rl's example configs at 559b4477 (21 August 2026): alphabet-sort, wiki-search, wordle (a batch of
128 in groups of 8) and reverse-text (128 in groups of 16). The small recipes run 200 steps; one on eight GPUs has a
batch of 512 in groups of 16. A step should have at least MIN_GROUPS groups and MIN_BATCH rollouts with a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.statistics import LOG_HIGH, LOG_LOW
from prime_lab_mcp.lab.configs.context import MIN_BATCH, MIN_GROUPS, ConfigContext, SourceMeasurement
from prime_lab_mcp.lab.configs.plan.choices import ChosenValue, ConfigChoices, SourceChoice
from prime_lab_mcp.lab.configs.rules.run import MANY_PASSES
from prime_lab_mcp.lab.distribution.rules import USABLE_WARN
from prime_lab_mcp.lab.distribution.signal import expected_power

EVALUATED_GROUP = 16
"""Group size of a measured share if its evidence does not state the group size. It is the default of an evaluation."""
_HALVINGS = 60
"""Steps of the bisection."""


def usable_share_at_group(context: ConfigContext, group: int) -> float | None:
    """Return the expected share of usable groups of the hardest environment at this group size.

    None without a measurement. If the mean reward is unknown, the measured share is returned.
    """
    share, at = context.usable, context.usable_group or EVALUATED_GROUP
    if share is None or context.mean is None or at == group or not 0 < share < 1:
        return share
    mean = min(max(context.mean, 1e-3), 1 - 1e-3)
    concentration = math.exp(_fitted(mean, at, share))
    evaluated_share = _mixed(concentration, mean, at)
    return min(1.0, _mixed(concentration, mean, group) * share / evaluated_share) if evaluated_share > 0 else share


def _fitted(mean: float, group: int, share: float) -> float:
    """Return the logarithm of the beta-binomial's concentration that leads to this share of usable groups.

    The share grows with the concentration, so bisection finds it.
    """
    low, high = LOG_LOW, LOG_HIGH
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _mixed(math.exp(middle), mean, group) < share else (low, middle)
    return (low + high) / 2


def _mixed(concentration: float, mean: float, group: int) -> float:
    """Return the probability that a group has both solved and failed rollouts."""
    return 1.0 - expected_power(concentration, mean, group) - expected_power(concentration, 1 - mean, group)


DEFAULT_STEPS, DEFAULT_BATCH, DEFAULT_GROUP = 200, 128, 16
LARGEST_BATCH = 512
"""The largest batch of the recipes. A larger batch costs more than it improves the estimate of the gradient."""
CANDIDATE_GROUP_SIZES = (8, 16, 32)
"""Group sizes among which the plan chooses. prime-rl's docs advise at least 8."""
_DIVISORS = (16, 8, 32, 12, 10, 6, 5, 4, 3, 2)
"""Group sizes for a requested batch that is no multiple of the best group size, the preferred first."""
FEWEST_STEPS = 20
"""Least number of steps that the plan chooses (our judgement)."""


def choose_batching(choices: ConfigChoices, context: ConfigContext) -> tuple[ChosenValue, ChosenValue]:
    """Choose group size and batch size, both in rollouts. Raises BadInput if the batch is no multiple of the group."""
    group = _group(choices, context)
    batch = _batch(choices, context, int(group.value))
    if not group.value or batch.value % group.value:
        near = max(1, round(batch.value / (group.value or DEFAULT_GROUP))) * (group.value or DEFAULT_GROUP)
        raise BadInput(
            f"a batch of {batch.value} rollouts is no multiple of "
            + (f"the group size {group.value}" if group.value else "any useful group size"),
            fix=Fix("Pass ", SameCall(batch=near), "."),
            code="config-batch-group",
        )
    return group, batch


def own_group_sizes(choices: ConfigChoices, context: ConfigContext, shared: int, batch: int) -> dict[int, ChosenValue]:
    """Return the group sizes of sources whose evaluation needs another size than the shared one, by source index."""
    groups: dict[int, ChosenValue] = {}
    for index, source in enumerate(choices.sources if choices.group is None and len(choices.sources) > 1 else ()):
        measurement = context.each.get(source.id)
        if measurement is None or measurement.usable is None or measurement.mean is None:
            continue
        own = _by_share(
            replace(
                context,
                usable=measurement.usable,
                usable_group=measurement.usable_group,
                mean=measurement.mean,
                each={source.id: measurement},
            )
        )
        if own.value != shared and batch % int(own.value) == 0:
            groups[index] = own
    return groups


def _group(choices: ConfigChoices, context: ConfigContext) -> ChosenValue:
    if choices.group is not None:
        return ChosenValue(choices.group, choices.because.get("group", "as asked"))
    group = _by_share(context)
    if choices.batch is None:
        return group
    if choices.batch % int(group.value) == 0:
        return ChosenValue(group.value, f"{group.why}; divides the batch")
    divisor = next((g for g in _DIVISORS if choices.batch % g == 0), 0)
    return ChosenValue(divisor, "enough rollouts of one task to compare, divides the batch")


def _by_share(context: ConfigContext) -> ChosenValue:
    """Return the smallest candidate group size with enough usable groups, because larger groups cost more rollouts.

    Sizes below that of the evaluation's verdict are left out: the verdict does not hold for smaller groups, and
    submit_training would refuse them.
    """
    if context.usable is None:
        return ChosenValue(
            DEFAULT_GROUP, "enough rollouts of one task to compare; not measured: run_eval tells the share"
        )
    evidence = f" ({context.evidence_summary})" if context.evidence_summary else ""
    if context.mean is None:
        return ChosenValue(
            DEFAULT_GROUP, f"{context.usable:.0%} of groups are usable{evidence}; no mean to judge other sizes by"
        )
    evaluated_group = context.usable_group or EVALUATED_GROUP
    for size in (s for s in CANDIDATE_GROUP_SIZES if s >= evaluated_group):
        share = usable_share_at_group(context, size) or 0.0
        if share >= USABLE_WARN:
            smallest = "as judged" if size == evaluated_group else f"smaller ones stay below {USABLE_WARN:.0%}"
            return ChosenValue(size, f"about {share:.0%} of such groups have a gradient{evidence}; {smallest}")
    share = usable_share_at_group(context, CANDIDATE_GROUP_SIZES[-1]) or 0.0
    return ChosenValue(
        DEFAULT_GROUP,
        f"even groups of 32 are usable in about {share:.0%} only{evidence}: the tasks have to change, not the group",
    )


def _batch(choices: ConfigChoices, context: ConfigContext, group: int) -> ChosenValue:
    if choices.batch is not None:
        return ChosenValue(choices.batch, choices.because.get("batch", "as asked; rollouts a step"))
    if not group:
        return ChosenValue(DEFAULT_BATCH, "rollouts a step")
    least = max(1, round(DEFAULT_BATCH / group)) * group
    least = max(least, math.ceil(MIN_BATCH / group) * group)
    share = usable_share_at_group(context, group)
    resampled = choices.curriculum in ("gate", "both")
    if share is None or resampled:
        full = max(least, MIN_GROUPS * group) if resampled else least
        curriculum_note = "; the gate keeps it full" if resampled else ""
        return ChosenValue(
            full, f"rollouts a step: the default size of prime-rl, a multiple of the group{curriculum_note}"
        )
    needed = max(MIN_GROUPS * group, MIN_BATCH) / max(share, 1e-3)
    size = max(least, math.ceil(needed / group) * group)
    most = max(least, LARGEST_BATCH // group * group)
    if size > most:
        return ChosenValue(
            most,
            f"rollouts a step: the largest of the recipes; {MIN_GROUPS} groups with a gradient would take {size}",
        )
    return ChosenValue(
        size,
        f"rollouts a step, of which about {size * share:.0f} in {size / group * share:.0f} groups have a gradient "
        f"(at least {MIN_BATCH} in {MIN_GROUPS} wanted)",
    )


def choose_steps(choices: ConfigChoices, context: ConfigContext, groups: int) -> ChosenValue:
    """Choose the number of steps. `groups` is the number of groups in one step, each of one task."""
    if choices.steps is not None:
        return ChosenValue(choices.steps, choices.because.get("steps", "as asked"))
    most = _most_steps(choices.sources, context, groups)
    if most is not None and most[0] < DEFAULT_STEPS:
        return ChosenValue(max(FEWEST_STEPS, most[0]), f"about {MANY_PASSES} passes over {most[1]}, not more")
    return ChosenValue(
        DEFAULT_STEPS, "length of the small recipes of prime-rl; look at step 50 whether the reward rises"
    )


def _most_steps(sources: Sequence[SourceChoice], context: ConfigContext, groups: int) -> tuple[int, str] | None:
    """Return the steps in which the run passes MANY_PASSES times over the tasks, and the tasks in words.

    With several sources, the source whose tasks repeat first decides. None if the number of tasks is unknown or
    infinite.
    """
    if context.infinite and len(sources) < 2:
        return None
    total = sum(s.ratio or 1.0 for s in sources)
    limits = []
    for source in sources if len(sources) > 1 else ():
        measurement = context.each.get(source.id, SourceMeasurement())
        if measurement.tasks and not measurement.infinite:
            share = (source.ratio or 1.0) / total
            name = source.id.rpartition("/")[2]
            limits.append(
                (int(MANY_PASSES * measurement.tasks / (groups * share)), f"the {measurement.tasks} tasks of {name}")
            )
    if limits:
        return min(limits)
    if context.tasks and not context.infinite:
        return MANY_PASSES * context.tasks // groups, f"the {context.tasks} tasks"
    return None
