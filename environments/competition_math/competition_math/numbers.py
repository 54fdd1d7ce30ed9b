"""Plain numbers in LaTeX: integers, decimals, fractions; with a unit. An expression to be worked out is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d{1,40})(?:\.\d{0,40})?|\.\d{1,40}"
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s?\$?\s?(?P<late_sign>[-+]?)\s?(?:"
    r"(?P<whole>\d{1,20})?\s?\\frac\s?\{\s?(?P<top>-?\d{1,40})\s?\}\s?\{\s?(?P<bottom>-?\d{1,40})\s?\}"
    r"|(?:(?P<before>\d{1,20})\s)?(?P<left>\d{1,40})\s?/\s?(?P<right>\d{1,40})"
    rf"|(?P<digits>{_UNSIGNED})(?:\s?(?:\\times|\\cdot|\*)\s?10\^(?:\{{(?P<power>-?\d{{1,3}})\}}|(?P<digit>\d))"
    r"|[eE](?P<exponent>[-+]?\d{1,3}))?"
    r")\s?(?P<unit>%|°(?:\s?[CF])?|\\text\{[^{}]{0,60}\}(?:\^[23])?|[A-Za-z]{2,12}(?:\^[23])?)?"
)
_BARE_UNITS = re.compile(
    r"[mcdk]m|[mk]g|[mc]l|hrs?|mins?|secs?|ft|inch(?:es)?|feet|foot|yards?|met(?:er|re)s?|miles?|grams?|lit(?:er|re)s?"
    r"|dollars?|cents?|euros?|degrees?|(?:hour|minute|second|day|week|month|year)s?|units?|mph"
)
_NO_UNITS = re.compile(
    r"hundred|thousand|million|billion|trillion|dozens?|score|k|mn|bn|squared|cubed|or|and|not|to|more|less|at|least|most"
    r"|about|approximately|plus|minus|times"
)
"""Words that change the number they follow, or add to it; what holds one is no plain number."""
PLACES = 4
"""Decimal places from which on a rounded number is taken for the exact one."""


@dataclass(frozen=True, slots=True)
class Number:
    """`places` are the decimal places as written, None for a fraction."""

    value: Fraction
    places: int | None
    unit: str


def read(text: str) -> Number | None:
    """The number that a tidy text is; None for anything else."""
    found = _NUMBER.fullmatch(text)
    if found is None or (found["sign"] and found["late_sign"]):
        return None
    unit = _unit(found["unit"] or "")
    if unit is None:
        return None
    negative = "-" in (found["sign"], found["late_sign"])
    if found["digits"] is None:
        value = _fraction(found)
        return None if value is None else Number(-value if negative else value, None, unit)
    digits = found["digits"].replace(",", "")
    power = int(found["power"] or found["digit"] or found["exponent"] or 0)
    value = Fraction(f"{digits.rstrip('.') or '0'}e{power}")
    return Number(-value if negative else value, max(0, len(digits.partition(".")[2]) - power), unit)


def _fraction(found: re.Match[str]) -> Fraction | None:
    """A fraction or a mixed number such as `1 1/2`; None for `1 500/3`, whose space may stand between thousands."""
    top, bottom = int(found["top"] or found["left"]), int(found["bottom"] or found["right"])
    if bottom == 0 or (found["whole"] and (top < 0 or bottom < 0)):
        return None
    if found["before"] and len(found["left"]) == 3 and top >= bottom:
        return None
    return int(found["whole"] or found["before"] or 0) + Fraction(top, bottom)


def _unit(text: str) -> str | None:
    """A unit in one spelling, '' where there is none; None when it is no unit."""
    if text[:1].isalpha() and not _BARE_UNITS.fullmatch(text.partition("^")[0].lower()):
        return None
    bare = re.sub(r"\\text\{([^{}]*)\}", r"\1", text).strip().lower()
    parts = re.findall(r"[a-z]+", bare)
    if len(parts) > 4 or any(map(_NO_UNITS.fullmatch, parts)) or re.search(r"\d(?<!\^\d)|[=<>]", bare):
        return None
    return re.sub(r"s\b", "", re.sub(r"[\s.]+", " ", bare)).strip()


def same(given: Number, gold: Number) -> bool:
    """Equal as numbers. Units must agree where both have one; a percentage is none where the gold is none.

    A whole number must be given as one, not as a fraction that is still to be divided. Where the gold is no short
    decimal, a decimal of four places or more may be a rounded one.
    """
    if given.unit and given.unit != gold.unit and (gold.unit or given.unit == "%"):
        return False
    if gold.value.denominator == 1:
        return given.value == gold.value and given.places is not None
    if given.value == gold.value:
        return True
    rounded, exact = (given, gold) if given.places is not None else (gold, given)
    if rounded.places is None or rounded.places < PLACES or (exact.places is not None and exact.places <= PLACES):
        return False
    return abs(given.value - gold.value) <= Fraction(1, 2 * 10**rounded.places)
