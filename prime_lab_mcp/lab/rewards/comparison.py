"""Compares the rewards of two environments for the same completions, to show that a port preserves its reward.

Tasks are matched by the user's prompt and never by position, because ports hold out, drop or sort rows. Rewards are
compared as shares of the reward for a right answer on each side, so a port may scale its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets import golds as gold_values
from prime_lab_mcp.lab.datasets.task_golds import prompt_of
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family, Kind
from prime_lab_mcp.lab.rewards.rules.amounts import CaseRow
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.worker.description import RewardInfo, Row
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, Scored

SAMPLE = 5_000
"""Most tasks of the other environment that are searched for the tasks of the trial."""
TOLERANCE = 1e-6
"""Largest difference between equal shares of the maximum: weights are sums of floats."""
_SHOWN = 8
_RIGHT: frozenset[Kind] = frozenset({"gold", "verbose"})


@dataclass(frozen=True, slots=True)
class MatchedTasks:
    """`pairs` maps a task index to that of the other environment. `unmatched` rows have no or no unique counterpart."""

    pairs: dict[int, int]
    unmatched: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class ComparedCompletion:
    """One completion, scored by this environment and by the other environment."""

    here: ScoredProbe
    there: Scored


@dataclass(frozen=True, slots=True)
class RewardComparison:
    """The comparison with the environment `name`. Each maximum is the highest reward of a right completion there."""

    name: str
    matched: MatchedTasks
    compared: tuple[ComparedCompletion, ...]
    maximum: float
    other_maximum: float
    weights: tuple[tuple[str, float, float], ...] = ()
    """Components of one name with different weights: the weight here and there."""
    unexercised: tuple[str, ...] = ()
    """Components of either side that no compared completion earned: nothing is known about them."""

    @property
    def different(self) -> list[ComparedCompletion]:
        return [c for c in self.compared if self._differs(c)]

    def _differs(self, pair: ComparedCompletion) -> bool:
        here, there = self.share(pair.here.reward), self.other_share(pair.there.reward)
        if here is None or there is None:
            return here is not there
        return abs(here - there) > TOLERANCE

    def share(self, reward: float | None) -> float | None:
        return None if reward is None else reward / self.maximum if self.maximum > 0 else reward

    def other_share(self, reward: float | None) -> float | None:
        return None if reward is None else reward / self.other_maximum if self.other_maximum > 0 else reward

    def as_json(self) -> dict[str, Any]:
        return {
            "environment": self.name,
            "tasks": len({c.here.probe.row for c in self.compared}),
            "unmatched_tasks": len(self.matched.unmatched),
            "completions": len(self.compared),
            "differ": len(self.different),
            "max_reward": round(self.maximum, 6),
            "other_max_reward": round(self.other_maximum, 6),
            "unexercised": list(self.unexercised),
        }


def match_tasks(rows: Sequence[Row], others: Sequence[Row]) -> MatchedTasks:
    """Match rows with the same normalised user prompt, and rows with equal prompts by their answers."""
    there: dict[str, list[Row]] = {}
    for row in others:
        there.setdefault(_prompt_key(row), []).append(row)
    pairs: dict[int, int] = {}
    unmatched = []
    for row in rows:
        found = there.get(_prompt_key(row), [])
        if len(found) > 1:
            found = [other for other in found if _answer_key(other) == _answer_key(row)]
        if found:
            pairs[row.index] = found[0].index
        else:
            unmatched.append(row)
    return MatchedTasks(pairs, tuple(unmatched))


def _prompt_key(row: Row) -> str:
    return gold_values.normalised_text(prompt_of(row))


def _answer_key(row: Row) -> str:
    return gold_values.normalised_text(gold_values.gold_text(row.answer))


async def compare_rewards(
    trial: Trial, rows: Sequence[Row], worker: Worker, *, name: str, rewards: Sequence[RewardInfo] = ()
) -> RewardComparison:
    """Score every completion of a trial with `worker`, the other environment, on the task with the same prompt.

    `rewards` are the components that the other environment declares.
    """
    others = await worker.rows(limit=SAMPLE)
    matched = match_tasks(rows, others.rows)
    shots = list({(s.probe.row, s.probe.completion, bool(s.probe.messages)): s for s in trial.everything}.values())
    shots = [s for s in shots if s.probe.row in matched.pairs and not s.scored.has(ProblemCode.NOT_RUN)]
    shots = [s for s in shots if s.probe.family is not Family.NEVER_ENDS]
    cases = [Case(s.probe.id, matched.pairs[s.probe.row], s.probe.messages) for s in shots]
    scored = await Scorer(worker).score(cases)
    compared = tuple(
        ComparedCompletion(s, t) for s, t in zip(shots, scored, strict=True) if not t.has(ProblemCode.NOT_RUN)
    )
    right = [c for c in compared if c.here.probe.kind in _RIGHT and _pays(c.here.reward)]
    return RewardComparison(
        name,
        matched,
        compared,
        max((c.here.reward or 0.0 for c in right), default=0.0),
        max((c.there.reward or 0.0 for c in right), default=0.0),
        different_weights(trial.rewards, rewards),
        unexercised_components(compared, (*trial.rewards, *rewards)),
    )


def different_weights(
    rewards: Sequence[RewardInfo], others: Sequence[RewardInfo]
) -> tuple[tuple[str, float, float], ...]:
    """Components of one name whose shares of the declared weights differ."""

    def shares(infos: Sequence[RewardInfo]) -> dict[str, tuple[float, float]]:
        counted = [i for i in infos if i.kind != "metric"]
        total = sum(abs(i.weight) for i in counted) or 1.0
        return {i.name: (i.weight / total, i.weight) for i in counted}

    here, there = shares(rewards), shares(others)
    return tuple(
        (name, weight, there[name][1])
        for name, (share, weight) in here.items()
        if name in there and abs(share - there[name][0]) > TOLERANCE
    )


def unexercised_components(compared: Sequence[ComparedCompletion], rewards: Sequence[RewardInfo]) -> tuple[str, ...]:
    """The names of weighted components that no compared completion earned on either side."""
    earned = {
        name
        for pair in compared
        for scored in (pair.here.scored, pair.there)
        for name, part in scored.components.items()
        if part.score is not None and abs(part.score) > TOLERANCE
    }
    return tuple(dict.fromkeys(i.name for i in rewards if i.kind != "metric" and i.weight and i.name not in earned))


def _pays(reward: float | None) -> bool:
    return reward is not None and reward > 0


def comparison_findings(comparison: RewardComparison) -> list[Finding]:
    """Findings about unequal rewards and unmatched tasks; empty where both environments pay the same for everything."""
    return [*_not_compared(comparison), *_differences(comparison), *_left_out(comparison)]


def _not_compared(comparison: RewardComparison) -> list[Finding]:
    if comparison.compared:
        return []
    return [
        Finding(
            "reward-not-compared",
            "blocker",
            f"no task of {quote(comparison.name, 80)} asks the same as a task of this environment, so nothing was "
            "compared",
            "Give both the same prompts (the user's message, not the system prompt) and the same split, set "
            "[tool.prime-lab] check_args where one of them loads another split, then call test_reward again.",
            rows=_prompts(comparison),
        )
    ]


def _differences(comparison: RewardComparison) -> list[Finding]:
    different = comparison.different
    if not different and comparison.compared and comparison.weights:
        name, here, there = comparison.weights[0]
        return [
            Finding(
                "reward-differs",
                "blocker",
                f"{quote(name, 80)} weighs {here:g} here and {there:g} in {quote(comparison.name, 80)}, beside the "
                "others; no completion that was tried shows the difference",
                "Give both the same weights, or cases that earn this component.",
            )
        ]
    if not different:
        return []
    said = f"{len(different)} of {count(len(comparison.compared), 'completion')} earned another share of the maximum"
    if comparison.other_maximum <= 0 < comparison.maximum:
        said = f"{quote(comparison.name, 80)} paid none of the right answers, this environment did"
    kinds: dict[tuple[Family, str], ComparedCompletion] = {}
    for pair in different:
        kinds.setdefault((pair.here.probe.family, pair.here.probe.variant), pair)
    shown = [*kinds.values(), *(pair for pair in different if pair not in kinds.values())][:_SHOWN]
    return [
        Finding(
            "reward-differs",
            "blocker",
            f"{said} in {quote(comparison.name, 80)}: {_example_text(shown[0], comparison)}",
            "Port what decides these completions (where the answer is looked for, how it is compared, what the format "
            "pays), or keep the difference on purpose: then test_reward without same_as judges the reward alone.",
            rows=tuple(_row(pair, comparison) for pair in shown),
        )
    ]


def _example_text(pair: ComparedCompletion, comparison: RewardComparison) -> str:
    here = _reward_text(pair.here.reward, comparison.maximum)
    there = _reward_text(pair.there.reward, comparison.other_maximum)
    return f"{here} here and {there} there for {quote(pair.here.probe.completion, 120)}"


def _reward_text(reward: float | None, maximum: float) -> str:
    return "nothing computable" if reward is None else f"{reward:g} of {maximum:g}"


def _row(pair: ComparedCompletion, comparison: RewardComparison) -> CaseRow:
    """A line of `failing_cases` with the rewards and components of both environments."""
    shot, there = pair.here, pair.there
    row: dict[str, Any] = {
        "case": shot.probe.label,
        "task": shot.probe.row,
        "completion": quote(shot.probe.completion) if shot.probe.messages else "(no reply)",
        "expected": f"as there: {_reward_text(there.reward, comparison.other_maximum)}",
        "reward": shot.reward if shot.reward is None else round(shot.reward, 6),
        "there": there.reward if there.reward is None else round(there.reward, 6),
        "task_there": comparison.matched.pairs[shot.probe.row],
        "components": {n: c.score for n, c in shot.scored.components.items()},
        "components_there": {n: c.score for n, c in there.components.items()},
    }
    raised = next((e for s in (shot.scored, there) for e in s.errors), None)
    if raised is not None:
        row["error"] = quote(f"{raised.type}: {raised.message}", 160)
    return CaseRow(shot, row)


def _left_out(comparison: RewardComparison) -> list[Finding]:
    missing = comparison.matched.unmatched
    if not missing or not comparison.compared:
        return []
    total = len(missing) + len(comparison.matched.pairs)
    return [
        Finding(
            "reward-partly-compared",
            "warning",
            f"{len(missing)} of {count(total, 'task')} have no counterpart in {quote(comparison.name, 80)} and were "
            "not compared",
            "Expected where one side drops rows or holds them out; otherwise give both the same rows and prompts.",
            rows=_prompts(comparison),
        )
    ]


def _prompts(comparison: RewardComparison) -> tuple[dict[str, Any], ...]:
    return tuple({"task": row.index, "prompt": quote(prompt_of(row), 160)} for row in comparison.matched.unmatched[:3])
