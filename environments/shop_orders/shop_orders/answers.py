"""How a reply gives its answer, and when that answer is right."""

from __future__ import annotations

import re
from decimal import Decimal

from shop_orders.tags import tagged

FORMAT = "At the end give the answer, a number or a name and nothing else, in answer tags: <answer>ANSWER</answer>"
_NUMBER = re.compile(r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,30})(?:\.[0-9]{1,10})?")


def right(reply: str, gold: str) -> bool:
    """Whether the tagged answer equals the gold: as a number, or as a name whatever its case and spaces."""
    given = {_value(content) for content in tagged(reply) or ()}
    return given == {_value(gold)}


def _value(text: str) -> Decimal | str:
    plain = " ".join(text.split()).casefold().rstrip(".")
    return Decimal(plain.replace(",", "")) if _NUMBER.fullmatch(plain) else plain
