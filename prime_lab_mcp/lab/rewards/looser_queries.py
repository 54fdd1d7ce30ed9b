"""Takes the conditions out of right SQL queries, so that they return more rows than the task asks for.

A reward may only look whether the right rows are among those of a query. One query without any condition is then paid
on every task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family

_MOST_TASKS = 12
_SELECT = re.compile(r"(?is)\bselect\b.+\bfrom\b")
_WHERE = re.compile(r"(?is)\s+where\b(?P<condition>.*?)(?=\s+(?:group|order)\s+by\b|\s+(?:having|limit)\b|;|```|</|$)")
_COMPARES = re.compile(r"(?i)[=<>]|\b(?:like|in|is|between|glob)\b")
_OTHER_RESULT = re.compile(
    r"(?i)\b(?:count|sum|avg|min|max|total|group_concat|exists|union|except|intersect|over|having|limit)\b|\bgroup\s+by\b"
)
"""Words of a query that returns other values, and not more rows, where a condition is left out."""


def looser_query_probes(replies: Mapping[int, str]) -> list[Probe]:
    """Return right replies without the conditions of their query, for tasks whose query has some and no aggregate."""
    texts = {row: _WHERE.sub("", text, count=1) for row, text in replies.items() if _can_be_looser(text)}
    return [
        Draft(Family.LOOSER_QUERY, text).probe(f"looser/{row}", row) for row, text in list(texts.items())[:_MOST_TASKS]
    ]


def _can_be_looser(text: str) -> bool:
    found = _WHERE.findall(text)
    compared = len(found) == 1 and _COMPARES.search(found[0]) is not None
    return compared and _SELECT.search(text) is not None and _OTHER_RESULT.search(text) is None
