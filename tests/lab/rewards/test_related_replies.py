"""Which related replies are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import anyio
import pytest

from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.related_replies import score_related
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.scoring import Case, Scored
from tests.lab.rewards.rules.trials import scored, scored_probe

ROWS = [Row(n, str(n), ({"role": "user", "content": f"Which {n}?"},), None, None, {}) for n in range(6)]


class Scoring:
    """A stand-in for a scorer."""

    gave_up = False

    def prepared(self, probe: Probe) -> Probe:
        return probe

    async def score(self, cases: Sequence[Case]) -> list[Scored]:
        return [scored(0.0) for _ in cases]


@pytest.mark.parametrize(("ms", "tasks"), [(5.0, {0, 1, 2, 3, 4, 5}), (900.0, {0, 1, 2})])
def test_a_slow_reward_scores_few_queries_and_no_lists(ms: float, tasks: set[int]) -> None:
    replies = [f"SELECT a FROM t{n} WHERE b = 1" for n in range(6)]
    placed = [(Draft(Family.SUPPLIED, reply, "right").probe(str(n), n), "high") for n, reply in enumerate(replies)]
    usual = scored_probe(Family.SUPPLIED, "right", 1.0)
    known = [ScoredProbe(usual.probe, replace(usual.scored, ms=ms))]
    made = anyio.run(score_related, cast(Scorer, Scoring()), placed, [], set(), ROWS, known)
    assert {s.probe.row for s in made if s.probe.family is Family.CHANGES_DATA} == tasks
    quick = {Family.LOOSER_QUERY, Family.EMPTY_NUMBERS, Family.CONSTANT_VALUES} if ms < 100 else set()
    assert {s.probe.family for s in made} <= {Family.CHANGES_DATA, *quick}
