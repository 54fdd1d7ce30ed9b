"""Other spellings of a right answer, by format (facts/validation 2.3): what a reward that reads answers should take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from prime_lab_mcp.lab.datasets import golds as values
from prime_lab_mcp.lab.datasets.formats import Format

_FRACTION = re.compile(r"(-?)(?:\\[dt]?frac\{(\d+)\}\{(\d+)\}|(\d+)\s*/\s*(\d+))")
_ORDER = re.compile(r"(?i)\b(order|sort|ascending|descending|rank|first|then|alphabetical)")
_BOOLEANS = {"yes": "true", "true": "yes", "no": "false", "false": "no"}


@dataclass(frozen=True, slots=True)
class Variant:
    """`usual`: models write it often and mean nothing else by it, so a reward that misses it is warned of."""

    name: str
    answer: str
    usual: bool = True


def variants(format: Format, said: str, *, prompt: str = "", parts: tuple[str, ...] = ()) -> list[Variant]:
    """Distinct spellings that differ from `said`. `parts`: the items of a list answer; for a letter, its option."""
    found = {v.answer: v for v in _variants(format, said, prompt, parts) if v.answer != said}
    return list(found.values())


def _variants(format: Format, said: str, prompt: str, parts: tuple[str, ...]) -> Iterator[Variant]:
    number = values.number(said)
    if format in ("gsm8k_hash", "numeric", "boxed", "latex_math") and number is not None:
        yield from _numeric(said, number)
    elif format in ("boxed", "latex_math", "numeric"):
        yield from _math(said)
    elif format in ("boolean", "label"):
        yield from _words(said)
        if said.lower() in _BOOLEANS:
            yield Variant("the other word", _BOOLEANS[said.lower()], usual=False)
    elif format in ("choice_letter", "choice_index") and len(said) == 1:
        yield from _letter(said, parts)
    elif format in ("short_text", "multi_answer"):
        yield from _text(format, said, prompt, parts)
    elif format in ("json", "tool_call"):
        yield from _json(said)


def _numeric(said: str, number: Decimal) -> Iterator[Variant]:
    yield Variant("spaces", f" {said} ")
    yield Variant("full stop", f"{said}.")
    if number == number.to_integral_value() and abs(number) < 10**15:
        whole = int(number)
        yield Variant("decimal", f"{whole}.0")
        if abs(whole) >= 1000:
            yield Variant("thousands comma", f"{whole:,}")
            yield Variant("thousands space", f"{whole:,}".replace(",", " "), usual=False)
        if whole >= 10 and whole % 10 == 0:
            yield Variant("scientific notation", _scientific(whole), usual=False)
    if number > 0:
        yield Variant("plus sign", f"+{said.lstrip('+')}", usual=False)
        yield Variant("dollar sign", f"${said}", usual=False)
    elif number < 0:
        yield Variant("typographic minus", said.replace("-", "\N{MINUS SIGN}"), usual=False)
    yield Variant("a word after it", f"{said} units", usual=False)


def _scientific(whole: int) -> str:
    digits = str(whole).rstrip("0")
    lead = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{lead}e{len(str(whole)) - 1}"


def _math(said: str) -> Iterator[Variant]:
    yield Variant("spaces", f" {said} ")
    yield Variant("dollars", f"${said}$", usual=False)
    fraction = _FRACTION.fullmatch(said.strip())
    if fraction is not None:
        sign, above, below = fraction[1], fraction[2] or fraction[4], fraction[3] or fraction[5]
        yield Variant("slash", f"{sign}{above}/{below}", usual=False)
        yield Variant("\\frac", f"{sign}\\frac{{{above}}}{{{below}}}", usual=False)
        yield Variant("\\dfrac", f"{sign}\\dfrac{{{above}}}{{{below}}}", usual=False)
        if int(below) and 1000 * int(above) % int(below) == 0:
            yield Variant("decimal", f"{sign}{(Decimal(above) / Decimal(below)).normalize():f}", usual=False)
    if "(" in said and "\\left" not in said:
        yield Variant("\\left( \\right)", said.replace("(", "\\left(").replace(")", "\\right)"), usual=False)
    terms = re.fullmatch(r"(\w+)\s*\+\s*(\w+)", said.strip())
    if terms is not None:
        yield Variant("terms the other way round", f"{terms[2]}+{terms[1]}", usual=False)


def _words(said: str) -> Iterator[Variant]:
    yield Variant("upper case", said.upper())
    yield Variant("capital", said.capitalize())
    yield Variant("full stop", f"{said}.")


def _letter(said: str, parts: tuple[str, ...]) -> Iterator[Variant]:
    yield Variant("lower case", said.lower())
    yield Variant("parentheses", f"({said})")
    yield Variant("full stop", f"{said}.")
    for option in parts[:1]:
        yield Variant("letter and option text", f"{said}) {option}", usual=False)
        yield Variant("option text", option, usual=False)


def _text(format: Format, said: str, prompt: str, parts: tuple[str, ...]) -> Iterator[Variant]:
    yield Variant("lower case", said.lower())
    yield Variant("full stop", f"{said}.")
    yield Variant("spaces", f" {said} ")
    if format == "short_text":
        yield Variant("article", f"the {said}", usual=False)
        yield Variant("quotes", f'"{said}"', usual=False)
    elif said == ", ".join(parts) and len(parts) > 1:
        yield Variant("items in another order", ", ".join(reversed(parts)), usual=_ORDER.search(prompt) is None)


def _json(said: str) -> Iterator[Variant]:
    try:
        value = json.loads(said)
    except (ValueError, RecursionError):
        return
    yield Variant("white space", json.dumps(value, ensure_ascii=False, indent=2))
    yield Variant("keys in another order", json.dumps(_turned(value), ensure_ascii=False))
    yield Variant("code fence", f"```json\n{said}\n```")


def _turned(value: Any) -> Any:
    """The same with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(v) for v in value] if isinstance(value, list) else value
