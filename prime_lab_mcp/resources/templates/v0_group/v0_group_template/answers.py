"""What is asked, how a reply gives its number, and when that number is right. Pure: no model, no verifiers.

Whole numbers must match exactly; measured ones, which have decimals, within a tolerance. Each kind is a member of the
group.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from v0_group_template import numbers
from v0_group_template.tags import tagged

Member = Literal["whole", "measured"]
MEMBERS: tuple[Member, ...] = ("whole", "measured")
FORMAT = "Then give the final number, and nothing else, in answer tags: <answer>NUMBER</answer>"
TOLERANCE = Decimal("0.001")
"""Relative difference that a measured answer may have: enough for a value rounded to four digits."""


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The gold as plain digits (`1200`, `0.5`); None when it is no number."""
    gold = numbers.gold_of(str(row["answer"]))
    return None if gold is None else numbers.show(gold)


def member_of(gold: str) -> Member:
    """The member of the group that a gold, as `gold_of` gives it, belongs to."""
    return "measured" if "." in gold else "whole"


def given(reply: str) -> Decimal | None:
    """The number in the tags of a reply; None when there is none, or several that differ."""
    values = {numbers.read(content) for content in tagged(reply) or ()}
    return values.pop() if len(values) == 1 else None


def exact(number: Decimal, gold: str) -> bool:
    """Equal to a whole gold."""
    wanted = numbers.read(gold)
    return wanted is not None and numbers.same(number, wanted)


def close(number: Decimal, gold: str) -> bool:
    """Within TOLERANCE of a measured gold."""
    wanted = numbers.read(gold)
    return wanted is not None and abs(number - wanted) <= TOLERANCE * abs(wanted)
