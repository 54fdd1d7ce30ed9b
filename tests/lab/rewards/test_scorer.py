"""What the scorer makes of scorings that take long. The durations are given; a worker would need seconds for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from prime_lab_mcp.lab.rewards.scorer import SLOW_ONCE, Scorer
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, Scored

pytestmark = pytest.mark.anyio

FAST, SLOW = 20.0, 1400.0


class Durations:
    """A worker whose scorings of a case take the given times in ms one after the other; the last one repeats."""

    def __init__(self, by_case: dict[str, Sequence[float]]) -> None:
        self.left = {case: list(durations) for case, durations in by_case.items()}
        self.scored: list[str] = []

    async def score(self, cases: Sequence[Case], *, case_timeout: float) -> list[Scored]:
        return [self._score(case) for case in cases]

    def _score(self, case: Case) -> Scored:
        self.scored.append(case.id)
        durations = self.left[case.id]
        return Scored(case.id, 1.0, ms=durations.pop(0) if len(durations) > 1 else durations[0])


async def slow_cases(worker: Durations) -> list[str]:
    cases = [Case(case, 0, ()) for case in worker.left]
    return [scored.id for scored in await Scorer(cast(Worker, worker)).score(cases) if scored.ms > 1000]


async def test_a_completion_that_was_slow_once_is_not_slow() -> None:
    worker = Durations({"a": [FAST], "b": [SLOW, FAST], "c": [FAST]})
    assert await slow_cases(worker) == []
    assert worker.scored.count("b") == 2


async def test_a_completion_that_is_slow_twice_is_slow_and_later_ones_are_scored_once() -> None:
    worker = Durations({"a": [FAST], "b": [SLOW], "c": [SLOW, FAST], "d": [FAST]})
    assert await slow_cases(worker) == ["b", "c"]
    assert (worker.scored.count("b"), worker.scored.count("c")) == (2, 1)


async def test_a_reward_that_remembers_completions_stays_slow() -> None:
    cases = [f"c{i}" for i in range(SLOW_ONCE + 3)]
    assert await slow_cases(Durations({case: [SLOW, FAST] for case in cases})) == cases[SLOW_ONCE:]


@pytest.mark.parametrize("again", [FAST, SLOW])
async def test_a_second_scoring_changes_the_duration_only(again: float) -> None:
    (scored,) = await Scorer(cast(Worker, Durations({"a": [SLOW, again]}))).score([Case("a", 0, ())])
    assert scored == Scored("a", 1.0, ms=again)
