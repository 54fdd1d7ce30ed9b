"""Reads a single reference answer (gold): whether it is empty, its number, and its text in a canonical form."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

GOLD_NAMES = (
    "answer",
    "gold",
    "target",
    "expected",
    "expected_answer",
    "ground_truth",
    "correct",
    "correct_answer",
    "label",
    "final_answer",
    "answers",
    "reference",
    "solution",
    "canonical_solution",
    "reference_solution",
    "result",
    "output",
)
"""Names of fields that hold a reference answer, the likeliest first."""

_SENTINELS = frozenset({"", "n/a", "na", "nan", "null", "-", "--", "[]", "{}", "?", "proof", "notfound", "not found"})
"""Texts that mean "no answer" (docs/validation.md, Dataset findings). `none` is not among them, because it can be a
label."""
_SODIUM = "Na"
"""The one answer that differs from a sentinel only by its case."""
_LONGEST_SENTINEL = max(map(len, _SENTINELS))
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)[$€£¥]?\s?(?P<late_sign>[-+]?)"
    r"(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"(?:[eE](?P<power>[-+]?[0-9]{1,2}))?"
    r"\s?(?:%|°[CF]?|(?P<unit>[A-Za-z]{1,20}(?:[ /][A-Za-z]{1,20}){0,2}))?\.?"
)
_SCALES = frozenset(
    ("hundred", "thousand", "million", "billion", "trillion", "dozen", "dozens", "k", "mn", "bn", "squared", "cubed")
)
_STATED_CHARACTERS = 100
_CLOSING_CHARACTERS = 400
_HOLDS_DIGIT = re.compile(r"[0-9]")
_STATED = re.compile(
    r"(?:^|[\s*])(?:[Ff]inal )?[Aa]nswer(?: is)?[ :=*]+([^\s*](?:(?:(?!\.\s)[^\n*]){0,58}[^\s*])?)\**$"
)
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
_UNIFIED = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u202f": None, "\u2009": None})
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.S)


def is_empty(value: Any) -> bool:
    """Return whether a gold is missing: null, blank, an empty list or object, or a text such as `n/a` or `proof`."""
    if value is None:
        return True
    if isinstance(value, str):
        text = value.strip()
        return len(text) <= _LONGEST_SENTINEL and text.lower() in _SENTINELS and text != _SODIUM
    if isinstance(value, list | tuple):
        return all(is_empty(v) for v in value)
    return isinstance(value, Mapping) and not value


def number_text(value: Any) -> str | None:
    """Return the number that a gold states (see `number_in`) in the form of `canonical_number`; None if it has none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and value[0] != "0" and len(value) <= 40:
        return value
    number = number_in(value)
    return None if number is None else canonical_number(number)


def number_in(value: Any) -> Decimal | None:
    """Return the number that a gold states; None if it states no number or more than a number.

    Thousands separators, currency signs and a unit are ignored. The template `numeric` reads numbers by the same rules;
    a test compares the two.
    """
    if isinstance(value, bool) or value is None:
        return None
    text = str(value)
    text = (text if text.isascii() else text.translate(_UNIFIED)).strip()
    if len(text) <= 40 and text.isascii() and text.isdigit():
        return Decimal(text)
    match = _NUMBER.fullmatch(text) if len(text) <= 200 else None
    if match is None or (match["sign"] and match["late_sign"]):
        return None
    if match["unit"] and _SCALES.intersection(re.split(r"[ /]", match["unit"].lower())):
        return None
    sign = "-" if "-" in (match["sign"], match["late_sign"]) else ""
    return Decimal(f"{sign}{match['digits'].replace(',', '')}E{match['power'] or 0}")


def after_hash(text: str) -> str | None:
    """Return the text after the last `####`, as in GSM8K; None if the text does not end in such an answer."""
    place = text.rfind("####")
    answer = text[place + 4 :].strip() if place >= 0 else ""
    return answer if answer and "\n" not in answer else None


def worked_answer(text: str) -> str | None:
    """Return the answer in which a worked solution ends; None if the text does not end in one.

    The answer is what follows the last `####`, or the number of a last sentence such as `The answer is 42.` or
    `Final answer: 42`. The template `numeric` reads the same; a test compares the two.
    """
    answer = after_hash(text)
    if answer is not None or "nswer" not in text[-_STATED_CHARACTERS:]:
        return answer
    stated = _STATED.search(text[-_STATED_CHARACTERS:].rstrip())
    if stated is None or number_in(stated[1]) is None:
        return None
    return stated[1].removesuffix(".")


def closing_number(text: str) -> str | None:
    """Return the answer of a worked solution (see `worked_answer`), or the number with which its last sentence closes.

    `60 - 3 = 57. So 57 places are taken.` closes with 57, the only number of its last sentence. The sentences before
    the last one must hold a number as well, because a single sentence works nothing out, unless it is a sum:
    `84 + 90 = 174` closes with 174. Only a column in which nearly all texts close with a number holds solutions, so
    that one text alone says nothing. The template `numeric` reads the same; a test compares the two.
    """
    answer = worked_answer(text)
    if answer is not None or "####" in text:
        return answer
    *before, last = _last_sentences(text)
    found = _ONLY_NUMBER.fullmatch(last) if any(map(_HOLDS_DIGIT.search, before)) else None
    found = found or _SUM.fullmatch(last)
    if found is None or found[2].lower() in _SCALES:
        return None
    return found[1] if number_in(found[1]) is not None else None


def ends_in_sum(text: str) -> bool:
    """Whether the last sentence of a solution ends in a sum and its result, such as `84 + 90 = 174`."""
    return _SUM.fullmatch(_last_sentences(text)[-1]) is not None


def _last_sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE_END.split(text.rstrip()[-_CLOSING_CHARACTERS:])]


def boxed_content(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}` or `\fbox{...}` that has balanced braces; None if there is none."""
    end = len(text)
    while (start := max(text.rfind("\\boxed", 0, end), text.rfind("\\fbox", 0, end))) >= 0:
        opened = _BOX.match(text, start)
        content = _balanced(text, opened.end()) if opened else None
        if content is not None and content.strip():
            return content.strip()
        end = start
    return None


def final_answer(text: str) -> str:
    """Return the answer in which a worked solution ends, else the content of its last box, else the whole text."""
    return worked_answer(text) or boxed_content(text) or text


def _balanced(text: str, begin: int) -> str | None:
    """Return the text from `begin` to the brace that closes the brace before `begin`. Escaped braces do not count."""
    depth = 1
    for brace in _BRACE.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[begin : brace.start()]
    return None


def gold_number(value: Any, format: str) -> Decimal | None:
    """Return the number of a gold in the format `gsm8k_hash` or `numeric`; None if it has none."""
    return number_in(_numeric_part(value, format))


def gold_number_text(value: Any, format: str) -> str | None:
    """Return the number of a gold (see `gold_number`) in the form of `canonical_number`; None if it has none."""
    return number_text(_numeric_part(value, format))


def _numeric_part(value: Any, format: str) -> Any:
    if format != "gsm8k_hash":
        return value
    return closing_number(value) if isinstance(value, str) else None


def canonical_number(number: Decimal) -> str:
    """Write a number as a person does: `1200`, `0.5`, `-3`."""
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


_YES, _NO = frozenset({"yes", "true", "1", "1.0"}), frozenset({"no", "false", "0", "0.0"})


def boolean_word(value: Any) -> str | None:
    """Return `yes` or `no` for a boolean gold in any notation (true, "True", 1, "yes"); None for other golds."""
    word = str(value).strip().casefold()
    return "yes" if word in _YES else "no" if word in _NO else None


def gold_text(value: Any) -> str:
    """Return a gold as one text. Lists, objects and booleans become JSON."""
    if isinstance(value, str):
        return value
    return (
        json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, list | dict | bool) else str(value)
    )


ASCII_SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
LOWER_WITH_SPACES = bytes(ord(" " if chr(code) in ASCII_SPACES else chr(code).lower()) for code in range(128)) + bytes(
    128
)
"""A table for `bytes.translate` of ASCII text: lower case, and a space for each white character."""


def normalised_text(text: str) -> str:
    """Normalise a text: NFKC, case folding, collapsed white space.

    Two prompts are the same if the results are equal.
    """
    if text.isdigit() and text.isascii():
        return text
    if not text.isascii():
        return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    lower = text.encode("ascii").translate(LOWER_WITH_SPACES).decode("ascii").strip(" ")
    return " ".join(lower.split()) if "  " in lower else lower
