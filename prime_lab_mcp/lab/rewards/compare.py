"""Whether two environments pay the same for the same completions: what proves that a port kept its reward.

Tasks are matched by what the user asks, never by position: ports hold rows out, drop them or sort them. Rewards are
compared as shares of what each side pays for a right answer, so a port may scale its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.datasets import golds as values
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.enduring import NEVER_ENDS
from prime_lab_mcp.lab.rewards.gold import prompt_of
from prime_lab_mcp.lab.rewards.observed import Shot, Trial
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker.cases import Case, Row, Scored
from prime_lab_mcp.lab.worker.host import Worker

SAMPLE = 5_000
"""Tasks of the other environment among which those of the trial are looked for."""
TOLERANCE = 1e-6
"""Shares of the maximum that differ by no more are the same: weights that are sums of floats."""
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Matched:
    """`pairs`: index here -> index there. `unmatched`: rows here whose prompt the other has not, or has ambiguously."""

    pairs: dict[int, int]
    unmatched: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """One completion on the same task, scored here and there."""

    here: Shot
    there: Scored


@dataclass(frozen=True, slots=True)
class Comparison:
    """`name` is the other environment. The maxima are what each side pays for a right completion of these."""

    name: str
    matched: Matched
    compared: tuple[Compared, ...]
    maximum: float
    other_maximum: float

    @property
    def different(self) -> list[Compared]:
        return [c for c in self.compared if self._differs(c)]

    def _differs(self, pair: Compared) -> bool:
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
        }


def match(rows: Sequence[Row], others: Sequence[Row]) -> Matched:
    """Rows with the same normalised user prompt; among several of those, the ones with the same answer."""
    there: dict[str, list[Row]] = {}
    for row in others:
        there.setdefault(_asked(row), []).append(row)
    pairs: dict[int, int] = {}
    unmatched = []
    for row in rows:
        found = there.get(_asked(row), [])
        if len(found) > 1:
            found = [other for other in found if _answer(other) == _answer(row)]
        if found:
            pairs[row.index] = found[0].index
        else:
            unmatched.append(row)
    return Matched(pairs, tuple(unmatched))


def _asked(row: Row) -> str:
    return values.normalised(prompt_of(row))


def _answer(row: Row) -> str:
    return values.normalised(values.as_text(row.answer))


async def run(trial: Trial, rows: Sequence[Row], worker: Worker, *, name: str) -> Comparison:
    """Score every completion of a trial in the other environment, on the task with the same prompt."""
    others = await worker.rows(limit=SAMPLE)
    matched = match(rows, others.rows)
    shots = list({(s.probe.row, s.probe.completion, bool(s.probe.messages)): s for s in trial.everything}.values())
    shots = [s for s in shots if s.probe.row in matched.pairs and "not-run" not in s.scored.problems]
    shots = [s for s in shots if s.probe.name != NEVER_ENDS]
    cases = [Case(s.probe.id, matched.pairs[s.probe.row], s.probe.messages) for s in shots]
    scored = await Scorer(worker).score(cases)
    compared = tuple(Compared(s, t) for s, t in zip(shots, scored, strict=True) if "not-run" not in t.problems)
    right = [c for c in compared if c.here.probe.kind in ("gold", "verbose") and _pays(c.here.reward)]
    return Comparison(
        name,
        matched,
        compared,
        max((c.here.reward or 0.0 for c in right), default=0.0),
        max((c.there.reward or 0.0 for c in right), default=0.0),
    )


def _pays(reward: float | None) -> bool:
    return reward is not None and reward > 0


def judge(found: Comparison) -> list[Finding]:
    """What keeps `found.name` from being called equal. Nothing where every completion was paid alike."""
    return [*_nothing(found), *_differences(found), *_left_out(found)]


def _nothing(found: Comparison) -> list[Finding]:
    if found.compared:
        return []
    return [
        Finding(
            "reward-not-compared",
            "blocker",
            f"no task of {quote(found.name, 80)} asks the same as a task of this environment, so nothing was compared",
            "Give both the same prompts (the user's message, not the system prompt) and the same split, set "
            "[tool.prime-lab] check_args where one of them loads another split, then call test_reward again.",
            rows=_prompts(found),
        )
    ]


def _differences(found: Comparison) -> list[Finding]:
    different = found.different
    if not different:
        return []
    said = f"{len(different)} of {count(len(found.compared), 'completion')} earned another share of the maximum"
    if found.other_maximum <= 0 < found.maximum:
        said = f"{quote(found.name, 80)} paid none of the right answers, this environment did"
    kinds: dict[str, Compared] = {}
    for pair in different:
        kinds.setdefault(pair.here.probe.name, pair)
    shown = [*kinds.values(), *(pair for pair in different if pair not in kinds.values())][:_SHOWN]
    return [
        Finding(
            "reward-differs",
            "blocker",
            f"{said} in {quote(found.name, 80)}: {_one(shown[0], found)}",
            "Port what decides these completions (where the answer is looked for, how it is compared, what the format "
            "pays), or keep the difference on purpose: then test_reward without same_as judges the reward alone.",
            rows=tuple(_row(pair, found) for pair in shown),
        )
    ]


def _one(pair: Compared, found: Comparison) -> str:
    return (
        f"{_said(pair.here.reward, found.maximum)} here and {_said(pair.there.reward, found.other_maximum)} there "
        f"for {quote(pair.here.probe.completion, 120)}"
    )


def _said(reward: float | None, maximum: float) -> str:
    return "nothing computable" if reward is None else f"{reward:g} of {maximum:g}"


def _row(pair: Compared, found: Comparison) -> dict[str, Any]:
    """A line of `failing_cases`, with what each reward function paid on both sides."""
    shot, there = pair.here, pair.there
    row: dict[str, Any] = {
        "case": shot.probe.name,
        "task": shot.probe.row,
        "completion": quote(shot.probe.completion) if shot.probe.messages else "(no reply)",
        "expected": f"as there: {_said(there.reward, found.other_maximum)}",
        "reward": shot.reward if shot.reward is None else round(shot.reward, 6),
        "there": there.reward if there.reward is None else round(there.reward, 6),
        "task_there": found.matched.pairs[shot.probe.row],
        "components": {n: c.score for n, c in shot.scored.components.items()},
        "components_there": {n: c.score for n, c in there.components.items()},
    }
    raised = next((e for s in (shot.scored, there) for e in s.errors), None)
    if raised is not None:
        row["error"] = quote(f"{raised.type}: {raised.message}", 160)
    return row


def _left_out(found: Comparison) -> list[Finding]:
    missing = found.matched.unmatched
    if not missing or not found.compared:
        return []
    total = len(missing) + len(found.matched.pairs)
    return [
        Finding(
            "reward-partly-compared",
            "warning",
            f"{len(missing)} of {count(total, 'task')} have no counterpart in {quote(found.name, 80)} and were not "
            "compared",
            "Expected where one side drops rows or holds them out; otherwise give both the same rows and prompts.",
            rows=_prompts(found),
        )
    ]


def _prompts(found: Comparison) -> tuple[dict[str, Any], ...]:
    return tuple({"task": row.index, "prompt": quote(prompt_of(row), 160)} for row in found.matched.unmatched[:3])
