"""Reads mixed numbers such as `4 7/12`, and makes the other numbers that careless parsers read in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

_MIXED_NUMBER = re.compile(r"(-?)(\d{1,6})(?:\s+(\d{1,6})\s?/\s?(\d{1,6})|\s*\\[dt]?frac\{(\d{1,6})\}\{(\d{1,6})\})")


@dataclass(frozen=True, slots=True)
class _MixedNumber:
    """A whole number and a fraction. `sign` is 1 or -1."""

    sign: int
    whole: int
    above: int
    below: int

    @property
    def value(self) -> Fraction:
        return self.sign * (self.whole + Fraction(self.above, self.below))


def _mixed_number(answer: str) -> _MixedNumber | None:
    """Return the mixed number that an answer states; None for any other answer."""
    match = _MIXED_NUMBER.fullmatch(answer.strip())
    if match is None:
        return None
    sign, whole, above, below = match[1], match[2], match[3] or match[5], match[4] or match[6]
    return _MixedNumber(-1 if sign else 1, int(whole), int(above), int(below)) if int(below) else None


def _quotient_text(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}" if value.denominator > 1 else str(value.numerator)


def improper_fraction(answer: str) -> str | None:
    """Return a mixed number as one fraction, `55/12` for `4 7/12`; None for any other answer."""
    mixed = _mixed_number(answer)
    return None if mixed is None else _quotient_text(mixed.value)


def misread_mixed_number(answer: str) -> Iterator[tuple[str, str]]:
    """Yield (name, wrong answer) for the other numbers that parsers read in a mixed number.

    A parser with implicit multiplication reads `4 7/12` as 28/12. A parser that drops white space reads 47/12, and
    math-verify reads 11/12.
    """
    mixed = _mixed_number(answer)
    if mixed is None:
        return
    whole, above, below = mixed.whole, mixed.above, mixed.below
    for name, value in (
        ("whole times fraction", Fraction(whole * above, below)),
        ("without the space", Fraction(int(f"{whole}{above}"), below)),
        ("whole plus numerator", Fraction(whole + above, below)),
        ("fraction alone", Fraction(above, below)),
        ("whole alone", Fraction(whole)),
    ):
        if mixed.sign * value != mixed.value:
            yield name, _quotient_text(mixed.sign * value)
