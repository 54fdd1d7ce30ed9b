"""Makes other spellings of an answer, by answer format. They mean the same, so a reward that parses answers accepts
them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from prime_lab_mcp.lab.datasets import golds as gold_answers
from prime_lab_mcp.lab.datasets.formats import AnswerFormat
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.probes.mixed_numbers import improper_fraction
from prime_lab_mcp.lab.rewards.probes.row_fields import filled
from prime_lab_mcp.lab.rewards.probes.wrong_answers import QUANTITY, field_values

_FRACTION = re.compile(r"(-?)(?:\\[dt]?frac\{(\d+)\}\{(\d+)\}|(\d+)\s*/\s*(\d+))")
_ORDER = re.compile(r"(?i)\b(order|sort|ascending|descending|rank|first|then|alphabetical)")
_LISTED = re.compile(
    r"(?i)\b(?:list|lists|name|all|which)\b[^.\n]{0,80}\bcommas?\b|\bcomma[- ]separated list\b|\bseparated by commas\b"
)
_BOOLEANS = {"yes": "true", "true": "yes", "no": "false", "false": "no"}


@dataclass(frozen=True, slots=True)
class SpellingVariant:
    """Another spelling of an answer.

    `usual` means that models often write this spelling, so that a reward should accept it. `fenced` means that the
    answer is inside a code fence.
    """

    name: str
    answer: str
    usual: bool = True
    fenced: bool = False


def spelling_variants(
    format: AnswerFormat, answer: str, *, prompt: str = "", parts: tuple[str, ...] = ()
) -> list[SpellingVariant]:
    """Return other spellings of `answer`, each once.

    `prompt` shows whether the order of a list matters. `parts` are the items of a list answer, or the text of the
    option that a letter stands for.
    """
    variants = {v.answer: v for v in _variants(format, answer, prompt, parts) if v.answer != answer}
    return list(variants.values())


def composed_spellings(golds: SampleGolds, gold: TaskGold) -> list[SpellingVariant]:
    """Return other spellings of a gold that is made of fields. What stands around the values stays."""
    own = field_values(golds, gold)
    lower = filled(golds.template, {place: text.lower() for place, text in own.items()})
    return [SpellingVariant("lower case", lower)] if lower != gold.forms[0] else []


def _variants(format: AnswerFormat, answer: str, prompt: str, parts: tuple[str, ...]) -> Iterator[SpellingVariant]:
    """Yield other spellings by answer format. Formats such as programs and prose have none."""
    improper = improper_fraction(answer)
    if improper is not None:
        yield SpellingVariant("improper fraction", improper, usual=False)
    yield from _listed_items(format, answer, prompt)
    number = gold_answers.number_in(answer)
    if format in ("gsm8k_hash", "numeric", "boxed", "latex_math") and number is not None:
        yield from _numeric(answer, number)
    elif format in ("boxed", "latex_math", "numeric"):
        yield from _math(answer)
    elif format in ("boolean", "label"):
        yield from _words(answer)
        if answer.lower() in _BOOLEANS:
            yield SpellingVariant("the other word", _BOOLEANS[answer.lower()], usual=False)
    elif format in ("choice_letter", "choice_index") and len(answer) == 1:
        yield from _letter(answer, parts)
    elif format in ("short_text", "multi_answer"):
        yield from _text(format, answer, prompt, parts)
    elif format in ("json", "tool_call"):
        yield from _json(answer)


def _listed_items(format: AnswerFormat, answer: str, prompt: str) -> Iterator[SpellingVariant]:
    """Yield a text of several items in another order, if the prompt asks for a list with commas and for no order."""
    items = [item.strip() for item in answer.split(",")]
    several = 2 <= len(items) <= 12 and all(items) and len(set(items)) == len(items)
    if format in ("short_text", "label") and several and _LISTED.search(prompt) and not _ORDER.search(prompt):
        yield SpellingVariant("items in another order", ", ".join(reversed(items)))


def _numeric(answer: str, number: Decimal) -> Iterator[SpellingVariant]:
    """Yield other spellings of a number. A unit that the answer has stays, because a reward may demand it."""
    quantity = QUANTITY.fullmatch(answer.strip())
    unit = quantity[0][quantity.end(1) :] if quantity else ""
    yield SpellingVariant("spaces", f" {answer} ")
    yield SpellingVariant("full stop", f"{answer}.")
    if number == number.to_integral_value() and abs(number) < 10**15:
        whole = int(number)
        yield SpellingVariant("decimal", f"{whole}.0{unit}")
        if abs(whole) >= 1000:
            yield SpellingVariant("thousands comma", f"{whole:,}{unit}")
            yield SpellingVariant("thousands space", f"{whole:,}".replace(",", " ") + unit, usual=False)
        if whole >= 10 and whole % 10 == 0:
            yield SpellingVariant("scientific notation", f"{_scientific(whole)}{unit}", usual=False)
    if number > 0:
        yield SpellingVariant("plus sign", f"+{answer.lstrip('+')}", usual=False)
        yield SpellingVariant("dollar sign", f"${answer}", usual=False)
    elif number < 0:
        yield SpellingVariant("typographic minus", answer.replace("-", "\N{MINUS SIGN}"), usual=False)
    if not unit:
        yield SpellingVariant("a word after it", f"{answer} units", usual=False)


def _scientific(whole: int) -> str:
    digits = str(whole).rstrip("0")
    lead = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{lead}e{len(str(whole)) - 1}"


def _math(answer: str) -> Iterator[SpellingVariant]:
    """Yield other spellings of a formula."""
    yield SpellingVariant("spaces", f" {answer} ")
    yield SpellingVariant("dollars", f"${answer}$", usual=False)
    fraction = _FRACTION.fullmatch(answer.strip())
    if fraction is not None:
        sign, above, below = fraction[1], fraction[2] or fraction[4], fraction[3] or fraction[5]
        yield SpellingVariant("slash", f"{sign}{above}/{below}", usual=False)
        yield SpellingVariant("\\frac", f"{sign}\\frac{{{above}}}{{{below}}}", usual=False)
        yield SpellingVariant("\\dfrac", f"{sign}\\dfrac{{{above}}}{{{below}}}", usual=False)
        if int(below) and 1000 * int(above) % int(below) == 0:
            yield SpellingVariant("decimal", f"{sign}{(Decimal(above) / Decimal(below)).normalize():f}", usual=False)
    if "(" in answer and "\\left" not in answer:
        yield SpellingVariant("\\left( \\right)", answer.replace("(", "\\left(").replace(")", "\\right)"), usual=False)
    terms = re.fullmatch(r"(\w+)\s*\+\s*(\w+)", answer.strip())
    if terms is not None:
        yield SpellingVariant("terms the other way round", f"{terms[2]}+{terms[1]}", usual=False)


_TAG = re.compile(r"(</?[A-Za-z][\w-]*>)")


def _between_tags(answer: str, change: Callable[[str], str]) -> str:
    """Return an answer of several fields with its texts changed. Tags belong to the form that the reward reads."""
    return "".join(part if _TAG.fullmatch(part) else change(part) for part in _TAG.split(answer))


def _words(answer: str) -> Iterator[SpellingVariant]:
    yield SpellingVariant("upper case", _between_tags(answer, str.upper))
    yield SpellingVariant("capital", _between_tags(answer, str.capitalize))
    yield SpellingVariant("full stop", f"{answer}.")


def _letter(answer: str, parts: tuple[str, ...]) -> Iterator[SpellingVariant]:
    """Yield other spellings of an option letter. `parts` has the text of the option."""
    yield SpellingVariant("lower case", answer.lower())
    yield SpellingVariant("parentheses", f"({answer})")
    yield SpellingVariant("full stop", f"{answer}.")
    for option in parts[:1]:
        yield SpellingVariant("letter and option text", f"{answer}) {option}", usual=False)
        yield SpellingVariant("option text", option, usual=False)


def _text(format: AnswerFormat, answer: str, prompt: str, parts: tuple[str, ...]) -> Iterator[SpellingVariant]:
    """Yield other spellings of a short text or a list."""
    yield SpellingVariant("lower case", _between_tags(answer, str.lower))
    yield SpellingVariant("full stop", f"{answer}.")
    yield SpellingVariant("spaces", f" {answer} ")
    if format == "short_text":
        yield SpellingVariant("article", f"the {answer}", usual=False)
        yield SpellingVariant("quotes", f'"{answer}"', usual=False)
    elif answer == ", ".join(parts) and len(parts) > 1:
        yield SpellingVariant("items in another order", ", ".join(reversed(parts)), usual=_ORDER.search(prompt) is None)


def _json(answer: str) -> Iterator[SpellingVariant]:
    """Yield other spellings of a JSON value."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return
    yield SpellingVariant("white space", json.dumps(value, ensure_ascii=False, indent=2))
    yield SpellingVariant("keys in another order", json.dumps(_turned(value), ensure_ascii=False))
    yield SpellingVariant("code fence", f"```json\n{answer}\n```", fenced=True)


def _turned(value: Any) -> Any:
    """Return a JSON value with the keys of every object in reverse order."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(v) for v in value] if isinstance(value, list) else value
