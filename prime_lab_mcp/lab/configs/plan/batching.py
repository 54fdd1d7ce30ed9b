"""Group size, batch size and steps.

Recipes are prime-rl's own example configs at 559b4477 (21 August 2026): alphabet-sort, wordle 128 x 8, wiki-search,
reverse-text 128 x 16, 200 steps; 512 x 16 on eight GPUs. What a step should hold at least: MIN_GROUPS and MIN_BATCH.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from prime_lab_mcp.lab.configs.observed import MIN_BATCH, MIN_GROUPS, Measured, Observed
from prime_lab_mcp.lab.configs.plan.choices import Choices, SourceChoice, Value
from prime_lab_mcp.lab.configs.plan.groups import EVALUATED_GROUP, usable_at
from prime_lab_mcp.lab.configs.rules_course import MANY_PASSES
from prime_lab_mcp.lab.distribution.advice import USABLE_WARN
from prime_lab_mcp.lab.errors import BadInput

DEFAULT_STEPS, DEFAULT_BATCH, DEFAULT_GROUP = 200, 128, 16
LARGEST_BATCH = 512
"""Of the recipes: beyond it a step costs more than the tasks are worth mending for."""
SIZES = (8, 16, 32)
"""Group sizes that are chosen among: 8 is the least that prime-rl's docs advise."""
_DIVISORS = (16, 8, 32, 12, 10, 6, 5, 4, 3, 2)
FEWEST_STEPS = 20


def batching(choices: Choices, seen: Observed) -> tuple[Value, Value]:
    """(group, batch), both in rollouts. Raises BadInput for a batch that no useful group divides."""
    group = _group(choices, seen)
    batch = _batch(choices, seen, int(group.value))
    if not group.value or batch.value % group.value:
        near = max(1, round(batch.value / (group.value or DEFAULT_GROUP))) * (group.value or DEFAULT_GROUP)
        raise BadInput(
            f"a batch of {batch.value} rollouts is no multiple of "
            + (f"the group size {group.value}" if group.value else "any useful group size"),
            fix=f"Pass batch={near}.",
            code="config-batch-group",
        )
    return group, batch


def own_groups(choices: Choices, seen: Observed, shared: int, batch: int) -> dict[int, Value]:
    """Group sizes of single sources where their own evaluation asks for another than the shared one."""
    found: dict[int, Value] = {}
    for index, source in enumerate(choices.sources if choices.group is None and len(choices.sources) > 1 else ()):
        measured = seen.each.get(source.id)
        if measured is None or measured.usable is None or measured.mean is None:
            continue
        own = _by_share(
            replace(
                seen,
                usable=measured.usable,
                usable_group=measured.usable_group,
                mean=measured.mean,
                each={source.id: measured},
            )
        )
        if own.value != shared and batch % int(own.value) == 0:
            found[index] = own
    return found


def _group(choices: Choices, seen: Observed) -> Value:
    if choices.group is not None:
        return Value(choices.group, choices.because.get("group", "as asked"))
    chosen = _by_share(seen)
    if choices.batch is None:
        return chosen
    if choices.batch % int(chosen.value) == 0:
        return Value(chosen.value, f"{chosen.why}; divides the batch")
    divisor = next((g for g in _DIVISORS if choices.batch % g == 0), 0)
    return Value(divisor, "enough rollouts of one task to compare, divides the batch")


def _by_share(seen: Observed) -> Value:
    """The smallest group of which enough are usable: a larger one costs more rollouts for each.

    None below what was judged: a verdict on groups of 16 does not speak for smaller ones, and a submission with them
    would be sent back for another.
    """
    if seen.usable is None:
        return Value(DEFAULT_GROUP, "enough rollouts of one task to compare; not measured: run_eval tells the share")
    told = f" ({seen.told})" if seen.told else ""
    if seen.mean is None:
        return Value(DEFAULT_GROUP, f"{seen.usable:.0%} of groups are usable{told}; no mean to judge other sizes by")
    judged = seen.usable_group or EVALUATED_GROUP
    for size in (s for s in SIZES if s >= judged):
        share = usable_at(seen, size) or 0.0
        if share >= USABLE_WARN:
            smallest = "as judged" if size == judged else f"smaller ones stay below {USABLE_WARN:.0%}"
            return Value(size, f"about {share:.0%} of such groups have a gradient{told}; {smallest}")
    share = usable_at(seen, SIZES[-1]) or 0.0
    return Value(
        DEFAULT_GROUP,
        f"even groups of 32 are usable in about {share:.0%} only{told}: the tasks have to change, not the group",
    )


def _batch(choices: Choices, seen: Observed, group: int) -> Value:
    if choices.batch is not None:
        return Value(choices.batch, choices.because.get("batch", "as asked; rollouts a step"))
    if not group:
        return Value(DEFAULT_BATCH, "rollouts a step")
    least = max(1, round(DEFAULT_BATCH / group)) * group
    least = max(least, math.ceil(MIN_BATCH / group) * group)
    share = usable_at(seen, group)
    resampled = choices.curriculum in ("gate", "both")
    if share is None or resampled:
        full = max(least, MIN_GROUPS * group) if resampled else least
        kept = "; the gate keeps it full" if resampled else ""
        return Value(full, f"rollouts a step: the default size of prime-rl, a multiple of the group{kept}")
    needed = max(MIN_GROUPS * group, MIN_BATCH) / max(share, 1e-3)
    wanted = max(least, math.ceil(needed / group) * group)
    most = max(least, LARGEST_BATCH // group * group)
    if wanted > most:
        return Value(
            most,
            f"rollouts a step: the largest of the recipes; {MIN_GROUPS} groups with a gradient would take {wanted}",
        )
    return Value(
        wanted,
        f"rollouts a step, of which about {wanted * share:.0f} in {wanted / group * share:.0f} groups have a gradient "
        f"(at least {MIN_BATCH} in {MIN_GROUPS} wanted)",
    )


def steps(choices: Choices, seen: Observed, groups: int) -> Value:
    """`groups` is how many tasks one step takes."""
    if choices.steps is not None:
        return Value(choices.steps, choices.because.get("steps", "as asked"))
    most = _most_steps(choices.sources, seen, groups)
    if most is not None and most[0] < DEFAULT_STEPS:
        return Value(max(FEWEST_STEPS, most[0]), f"about {MANY_PASSES} passes over {most[1]}, not more")
    return Value(DEFAULT_STEPS, "length of the small recipes of prime-rl; look at step 50 whether the reward rises")


def _most_steps(sources: Sequence[SourceChoice], seen: Observed, groups: int) -> tuple[int, str] | None:
    """Steps after which the tasks that come round first have been passed over MANY_PASSES times."""
    if seen.infinite and len(sources) < 2:
        return None
    total = sum(s.ratio or 1.0 for s in sources)
    found = []
    for source in sources if len(sources) > 1 else ():
        known = seen.each.get(source.id, Measured())
        if known.tasks and not known.infinite:
            share = (source.ratio or 1.0) / total
            name = source.id.rpartition("/")[2]
            found.append((int(MANY_PASSES * known.tasks / (groups * share)), f"the {known.tasks} tasks of {name}"))
    if found:
        return min(found)
    if seen.tasks and not seen.infinite:
        return MANY_PASSES * seen.tasks // groups, f"the {seen.tasks} tasks"
    return None
