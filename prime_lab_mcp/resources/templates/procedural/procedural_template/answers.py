"""How a reply gives its answer, and when that answer is right. Pure: no model, no verifiers."""

from __future__ import annotations

import re

from procedural_template.tags import tagged

FORMAT = "Then give the final number, and nothing else, in answer tags: <answer>NUMBER</answer>"
_NUMBER = re.compile(
    r"(?P<sign>[-+\u2212]?)\$?(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,30})(?:\.0+)?(?: ?[A-Za-z]{1,20})?\.?"
)
"""A whole number as models write one: with a sign, a dollar, thousands commas, a word after it, or a full stop."""


def score(reply: str, gold: str) -> float:
    """1 when the tagged number equals the gold; nothing the model writes is ever evaluated."""
    given = _given(reply)
    return float(given is not None and given == _read(gold))


def in_form(reply: str) -> bool:
    """The reply holds one readable number in answer tags, right or wrong."""
    return _given(reply) is not None


def _given(reply: str) -> int | None:
    values = {_read(content) for content in tagged(reply) or ()}
    return values.pop() if len(values) == 1 else None


def _read(text: str) -> int | None:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    number = int(match["digits"].replace(",", ""))
    return number if match["sign"] in ("", "+") else -number
