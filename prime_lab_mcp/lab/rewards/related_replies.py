"""Scores replies that stand in a known relation to right ones: changed lists and data, blind numbers, fewer words.

Right replies are those of the caller, and golds. Where scoring takes long, only the few that change data are scored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prime_lab_mcp.lab.rewards.case_skeletons import right_replies
from prime_lab_mcp.lab.rewards.faulty_lists import score_faulty
from prime_lab_mcp.lab.rewards.knowing_nothing import replies_knowing_nothing
from prime_lab_mcp.lab.rewards.list_relations import claim_probes, right_lists, score_relations
from prime_lab_mcp.lab.rewards.looser_queries import looser_query_probes
from prime_lab_mcp.lab.rewards.observations import Expected, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Probe
from prime_lab_mcp.lab.rewards.probes.data_changes import change_probes
from prime_lab_mcp.lab.rewards.scorer import Scorer, score_probes
from prime_lab_mcp.lab.rewards.stripped_replies import score_stripped
from prime_lab_mcp.lab.worker.description import Row

_SLOW_MS = 250.0
"""Median time for scoring one reply above which only few related replies are scored (our choice)."""
_FEW = 3
"""Number of tasks whose related replies are then scored."""


async def score_related(
    scorer: Scorer,
    placed: Sequence[tuple[Probe, Expected]],
    golds: Sequence[tuple[Probe, Expected]],
    stated: Collection[int],
    rows: Sequence[Row],
    known: Sequence[ScoredProbe],
) -> tuple[ScoredProbe, ...]:
    """Score replies that are related to right ones: those of the caller (`placed`), and golds.

    `stated` are the tasks whose right answer the golds state. `known` are replies that were scored before.
    """
    right = right_replies([*placed, *golds])
    times = sorted(s.scored.ms for s in known)
    if times and times[len(times) // 2] > _SLOW_MS:
        return await score_probes(scorer, change_probes(dict(list(right.items())[:_FEW])))
    scored = await score_probes(
        scorer, [*change_probes(right), *looser_query_probes(right), *claim_probes(right, rows)]
    )
    blind = await score_probes(scorer, replies_knowing_nothing(right_replies(placed), rows))
    lists = right_lists(right, set(stated), rows)
    related = await score_relations(scorer, lists)
    faulty = await score_faulty(scorer, lists, placed, rows, related)
    stripped = await score_stripped(scorer, right, rows)
    return (*scored, *blind, *related, *faulty, *stripped)
