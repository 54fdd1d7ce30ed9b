"""When a converted value is right. Pure: no model, no verifiers."""

from __future__ import annotations

import re
from decimal import Decimal

TOLERANCE = Decimal("0.001")
"""Relative. Golds are rounded to four digits at least, and so may answers be."""
_NUMBER = re.compile(r"(?P<sign>[-+]?)(?P<digits>[0-9][0-9,]{0,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})")
_POWER = re.compile(r"(?:[eE]|\s?(?:x|×|\*)\s?10\^)(?P<power>[-+]?[0-9]{1,2})")
_UNIT = re.compile(r"\s?[A-Za-z°][A-Za-z°/²³ ]{0,30}")


def read(text: str) -> Decimal | None:
    """The number a text is, thousands commas, a power of ten and a unit aside; None for anything else."""
    text = text.strip().replace("−", "-").rstrip(".")
    found = _NUMBER.match(text)
    if found is None:
        return None
    rest = text[found.end() :]
    power = _POWER.match(rest)
    rest = rest[power.end() :] if power else rest
    if rest and not _UNIT.fullmatch(rest):
        return None
    number = Decimal(found["digits"].replace(",", "")).scaleb(int(power["power"]) if power else 0)
    return -number if found["sign"] == "-" else number


def right(answer: str, gold: str) -> bool:
    """Within TOLERANCE of the gold."""
    given, wanted = read(answer), read(gold)
    return given is not None and wanted is not None and abs(given - wanted) <= TOLERANCE * abs(wanted)
