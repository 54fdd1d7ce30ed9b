"""The maximum of a task whose right answers earn less than those of other tasks.

Rewards pay a bonus for hard tasks, weigh tasks, or are members of a group that differ in their maxima (v0: EnvGroup).
A lower reward is the maximum of a task where right answers of several tasks earn exactly that much and wrong answers
to them earn at most half of it. Anything else, such as one gold that earns 0.83, is a gold that is not paid in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE

MOST_LEVELS = 6
"""Most different maxima: a reward with more grades its answers, and then no grade is a maximum."""
_SHARE = 0.05
"""Smallest share of the golds at one level (and at least two golds)."""
ASKED = 3
"""Tasks of one level for which a wrong answer is scored."""


def lower_levels(golds: Iterable[ScoredProbe]) -> dict[float, list[ScoredProbe]]:
    """By reward: the golds that earned less than the best gold and more than nothing, where they may be levels."""
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
    """By task: the maximum of each task at a lower level.

    `scored_probes` hold wrong answers to some tasks of each level.
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
