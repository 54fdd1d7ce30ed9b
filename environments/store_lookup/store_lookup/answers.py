"""How a reply gives its number, and when that number is right."""

from __future__ import annotations

from decimal import Decimal

from store_lookup import numbers
from store_lookup.tags import tagged

FORMAT = "At the end give the number, and nothing else, in answer tags: <answer>NUMBER</answer>"


def score(reply: str, gold: str) -> float:
    """1 when the tagged number equals the gold; nothing the model writes is ever evaluated."""
    given, wanted = _given(reply), numbers.read(gold)
    return float(given is not None and wanted is not None and numbers.same(given, wanted))


def in_form(reply: str) -> bool:
    """The reply holds one readable number in answer tags, right or wrong."""
    return _given(reply) is not None


def _given(reply: str) -> Decimal | None:
    values = {numbers.read(content) for content in tagged(reply) or ()}
    return values.pop() if len(values) == 1 else None
