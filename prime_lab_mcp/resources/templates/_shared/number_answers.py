"""What is asked, how a reply gives its answer, and when that answer is right. Pure: no model, no verifiers."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from shared_template import numbers
from shared_template.tags import tagged

FORMAT = "Then give the final number, and nothing else, in answer tags: <answer>NUMBER</answer>"


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The gold as plain digits (`1200`, `0.5`); None when it is no number."""
    gold = numbers.gold_of(str(row["answer"]))
    return None if gold is None else numbers.show(gold)


def reply_with(gold: str) -> str:
    """A reply that gives this answer in the right form, for worked examples."""
    return f"<answer>{gold}</answer>"


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
