"""Finds tasks whose right answers earn less than those of other tasks by design, and the maximum of these tasks.

A reward may pay a bonus for hard tasks, weigh tasks differently, or belong to a group of environments with different
maxima (EnvGroup of v0). A lower reward counts as the maximum of a task, a level, under two conditions: right answers to
several tasks earn exactly this reward, and wrong answers to them earn at most half of it. In any other case, such as a
single gold that earns 0.83, the gold is not paid in full.

A game may let every reply or call cost something, or pay for each, so that the reward of a solution tells how many
its task needed. Such a solution is the best play that is known, and its reward is the maximum of its task
(`solution_maxima`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.scripts import PlayedScript
from prime_lab_mcp.lab.rewards.solutions import Solved
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


_FEWEST_PRICED = 4
"""Smallest number of solutions that show the price of a reply (our choice)."""


def solution_maxima(solved: Solved) -> Mapping[int, float]:
    """Map tasks whose solution earns less than the best one by design to the reward of this solution.

    A stated solution may need more replies or calls than those of other tasks, where each costs or adds something:
    equal numbers earn equal rewards, and larger numbers always earn less, or always more. A supplied solution is a
    case that is expected to earn much, and need not be the best play: whether it earns enough is judged with the other
    cases (rules/known_answers.py).
    """
    paid = [p for p in solved.scored if (p.result.reward or 0.0) > EPSILON]
    priced = len(paid) >= _FEWEST_PRICED and any(_decides(paid, number) for number in (_replies, _calls))
    if not (solved.supplied or priced):
        return {}
    return {p.row: p.result.reward or 0.0 for p in paid}


def _replies(played: PlayedScript) -> int:
    return sum(m.get("role") == "assistant" for m in played.result.messages)


def _calls(played: PlayedScript) -> int:
    return sum(len(m.get("tool_calls") or ()) for m in played.result.messages)


def _decides(played: Sequence[PlayedScript], number: Callable[[PlayedScript], int]) -> bool:
    """Whether rewards follow from this number: equal numbers earn equal rewards, and rewards rise or fall with it."""
    by_number: dict[int, set[float]] = {}
    for p in played:
        by_number.setdefault(number(p), set()).add(round(p.result.reward or 0.0, 6))
    if not 1 < len(by_number) < len(played) or any(len(earned) > 1 for earned in by_number.values()):
        return False
    rewards = [earned.pop() for _, earned in sorted(by_number.items())]
    steps = [later - earlier for earlier, later in pairwise(rewards)]
    return max(steps) < -EPSILON or min(steps) > EPSILON
