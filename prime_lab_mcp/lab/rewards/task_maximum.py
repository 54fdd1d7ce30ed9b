"""Finds tasks whose right answers earn less than those of other tasks by design, and the maximum of these tasks.

A reward may pay a bonus for hard tasks, weigh tasks differently, or belong to a group of environments with different
maxima (EnvGroup of v0). A lower reward counts as the maximum of a task, a level, under two conditions: right answers to
several tasks earn exactly this reward, and wrong answers to them earn at most half of it. In any other case, such as a
single gold that earns 0.83, the gold is not paid in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE

MOST_LEVELS = 6
"""Number of different lower rewards from which on none is a level: such a reward grades its answers."""
_SHARE = 0.05
"""Smallest share of the golds that must earn a level, besides at least two golds."""
TASKS_OF_LEVEL = 3
"""Number of tasks of each level for which a wrong answer is scored."""


def lower_levels(golds: Iterable[ScoredProbe]) -> dict[float, list[ScoredProbe]]:
    """Map each possible level to the golds that earned it: more than nothing and less than the best gold."""
    paid = [(round(s.reward, 6), s) for s in golds if s.reward is not None]
    top = max((reward for reward, _ in paid), default=0.0)
    by_reward: dict[float, list[ScoredProbe]] = {}
    for reward, scored_probe in paid:
        if EPSILON < reward < FULL_SHARE * top - EPSILON:
            by_reward.setdefault(reward, []).append(scored_probe)
    few = max(2.0, _SHARE * len(paid))
    levels = {reward: scored_probes for reward, scored_probes in by_reward.items() if len(scored_probes) >= few}
    return levels if len(by_reward) < MOST_LEVELS else {}


def task_maxima(golds: Sequence[ScoredProbe], scored_probes: Iterable[ScoredProbe]) -> Mapping[int, float]:
    """Map the tasks of each level to their maximum.

    `scored_probes` must include wrong answers to some tasks of each level.
    """
    wrong: dict[int, float] = {}
    for scored_probe in scored_probes:
        probe = scored_probe.probe
        if probe.family is Family.WRONG and not (probe.near or probe.knowing) and scored_probe.reward is not None:
            wrong[probe.row] = max(scored_probe.reward, wrong.get(probe.row, scored_probe.reward))
    maxima: dict[int, float] = {}
    for reward, right in lower_levels(golds).items():
        known = [wrong[s.probe.row] for s in right if s.probe.row in wrong]
        if known and max(known) <= HALF_SHARE * reward + EPSILON:
            maxima |= {s.probe.row: reward for s in right}
    return maxima
