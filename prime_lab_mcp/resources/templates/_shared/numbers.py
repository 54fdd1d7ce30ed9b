"""Numbers in text: read by one strict grammar, compared as numbers, never evaluated.

The same grammar reads golds and replies, so no gold can be written in a way that the reward does not accept.
"""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = re.compile(
    r"(?P<sign>[-+]?)[$€£¥]?\s?(?P<late_sign>[-+]?)"
    r"(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"(?:[eE](?P<power>[-+]?[0-9]{1,2}))?"
    r"\s?(?:%|°[CF]?|(?P<unit>[A-Za-z]{1,20}(?:[ /][A-Za-z]{1,20}){0,2}))?\.?"
)
_SCALES = frozenset(
    ("hundred", "thousand", "million", "billion", "trillion", "dozen", "dozens", "k", "mn", "bn", "squared", "cubed")
)
"""Words that change the number they follow; a reply that uses one has not given a number."""
_STATED = re.compile(
    r"(?:^|[\s*])(?:[Ff]inal )?[Aa]nswer(?: is)?[ :=*]+([^\s*](?:(?:(?!\.\s)[^\n*]){0,58}[^\s*])?)\**$"
)
"""The end of a worked solution such as `The answer is 42.`"""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_ONLY_NUMBER = re.compile(
    r"(?:[^0-9]*[\s=:(*])?([-+]?[$€£¥]?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?%?)(?![0-9A-Za-z/])\s?([A-Za-z]*)[^0-9]*"
)
"""A sentence with exactly one number, and the word behind the number."""
_SUM = re.compile(
    r"(?:[^0-9=]*[A-Za-z:,]\s+)?_(?:\s*(?:[-+*/×÷·]|x)\s*_)+\s*(?:=|gives|makes|is|equals|leaves)\s*".replace(
        "_", r"\(?[-+]?[$€£¥]?[0-9][0-9,]{0,20}(?:\.[0-9]{1,20})?%?\)?"
    )
    + r"([-+]?[$€£¥]?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?%?)(?![0-9A-Za-z/])\s?([A-Za-z]*)[^0-9]*"
)
"""A sentence that ends in a sum of numbers and its result, such as `5 days: 124 x 5 gives 620`, and the word behind."""
_WRAPPERS = (("**", "**"), ("`", "`"), ("\\boxed{", "}"), ("\\(", "\\)"), ("$$", "$$"), ("$", "$"))
_UNIFIED = str.maketrans(
    {
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},  # fullwidth digits
        **dict.fromkeys("\u2212\u2010\u2011\u2013\uff0d\ufe63", "-"),
        "\uff0b": "+",
        "\uff0c": ",",
        "\uff0e": ".",
        "\u00a0": " ",
        **dict.fromkeys("\u202f\u2009\u200b\u200c\u200d\u2060\ufeff", None),
    }
)
RELATIVE_TOLERANCE = Decimal("1e-6")
"""For golds that are no integers; integers must match exactly."""


def read(text: str) -> Decimal | None:
    """The number that `text` is, thousands separators, currency and a unit aside; None for anything else."""
    text = text[:500].translate(_UNIFIED).strip()
    for before, after in _WRAPPERS:
        if text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after):
            text = text[len(before) : -len(after)].strip()
    found = _NUMBER.fullmatch(text.replace("\\$", "$").replace("\\%", "%"))
    if found is None or (found["sign"] and found["late_sign"]):
        return None
    if _SCALES.intersection(re.split(r"[ /]", (found["unit"] or "").lower())):
        return None
    sign = "-" if "-" in (found["sign"], found["late_sign"]) else ""
    return Decimal(f"{sign}{found['digits'].replace(',', '')}E{found['power'] or 0}")


def gold_of(text: str) -> Decimal | None:
    """The number of a gold: what follows the last `####` (GSM8K), what the last sentence states, or the whole text."""
    stated = None if "####" in text else _STATED.search(text[-100:].rstrip())
    number = read(stated[1] if stated else text.rpartition("####")[2])
    return _closing(text) if number is None and "####" not in text else number


def _closing(text: str) -> Decimal | None:
    """The result with which a solution closes: of a sum in its last sentence, or the only number there after others."""
    *before, last = _SENTENCE_END.split(text.rstrip()[-400:])
    found = _ONLY_NUMBER.fullmatch(last.strip()) if any(re.search("[0-9]", one) for one in before) else None
    found = found or _SUM.fullmatch(last.strip())
    if found is None or found[2].lower() in _SCALES:
        return None
    return read(found[1])


def same(given: Decimal, gold: Decimal) -> bool:
    """Equal as numbers: integers exactly, others within the tolerance or rounded to three digits or more."""
    if gold == gold.to_integral_value():
        return given == gold
    if abs(given - gold) <= RELATIVE_TOLERANCE * abs(gold):
        return True
    places, digits = -int(given.as_tuple().exponent), len(given.as_tuple().digits)
    long = -int(gold.as_tuple().exponent) > 4
    return long and places >= 2 and digits >= 3 and abs(given - gold) <= Decimal(f"0.5E-{places}")


def show(value: Decimal) -> str:
    """A number as plain digits: `1200`, `0.5`, `-3`."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
