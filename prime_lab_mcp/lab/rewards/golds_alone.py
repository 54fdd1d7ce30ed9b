"""Scores the golds of all tasks as single replies, where a few tasks alone have a solution whose calls are known.

Without its calls a right answer may earn less. But an answer that earns next to nothing beside others that earn nearly
all is refused for what it is, if a mark of its text tells it from those that are paid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from prime_lab_mcp.lab.datasets.task_golds import golds_at
from prime_lab_mcp.lab.rewards.observations import RefusedGolds, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, gold_probe
from prime_lab_mcp.lab.rewards.scorer import Scorer, score_probes
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker

_MARKS = {
    "a letter or sign other than A to Z, digits and blanks": re.compile(r"[^A-Za-z0-9\s]"),
    "a capital letter": re.compile(r"[A-Z]"),
    "a digit": re.compile(r"[0-9]"),
    "several words": re.compile(r"\S\s+\S"),
}
_FEWEST_REFUSED, _MARKED = 3, 0.8
"""Smallest number of refused answers, and the share of them that must have the mark, which no paid one has (our
choice)."""


async def find_refused_golds(worker: Worker, style: AnswerStyle, rows: Sequence[Row]) -> RefusedGolds | None:
    """Return the golds that are refused for a mark of their text; None if there is no such mark."""
    golds = golds_at(rows, style.golds.place) if not style.golds.template else None
    if golds is None or golds.format != style.golds.format:
        return None
    alone = replace(style, golds=golds)
    scored = await score_probes(Scorer(worker), [gold_probe(alone, gold) for gold in golds.golds])
    answers = {gold.row: gold.form(style.form) for gold in golds.golds}
    return refused_golds([(answers[s.probe.row], s) for s in scored if s.reward is not None and not s.scored.broken])


def refused_golds(scored: Sequence[tuple[str, ScoredProbe]]) -> RefusedGolds | None:
    """Return what `find_refused_golds` does, for pairs of an answer and its score."""
    best = max((s.reward or 0.0 for _, s in scored), default=0.0)
    refused = [(text, s) for text, s in scored if (s.reward or 0.0) < HALF_SHARE * best]
    paid = [text for text, s in scored if (s.reward or 0.0) >= HALF_SHARE * best]
    if best <= EPSILON or len(refused) < _FEWEST_REFUSED or len(paid) < len(refused):
        return None
    for name, mark in _MARKS.items():
        marked = tuple(s for text, s in refused if mark.search(text))
        if len(marked) >= max(_FEWEST_REFUSED, _MARKED * len(refused)) and not any(map(mark.search, paid)):
            return RefusedGolds(name, marked, len(scored))
    return None
