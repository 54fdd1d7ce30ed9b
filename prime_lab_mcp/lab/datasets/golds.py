"""What one gold answer says: whether it is one at all, its number, its canonical text.

Apart from format detection because findings, the split of a dataset and the templates' tests use it alone.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_SENTINELS = frozenset({"", "n/a", "na", "nan", "null", "-", "--", "[]", "{}", "?", "proof", "notfound", "not found"})
"""Texts that stand for no answer (facts/validation 1.4); `none` only where it is rare, since it may be a label."""
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)[$€£¥]?\s?(?P<late_sign>[-+]?)"
    r"(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"(?:[eE](?P<power>[-+]?[0-9]{1,2}))?"
    r"\s?(?:%|°[CF]?|(?P<unit>[A-Za-z]{1,20}(?:[ /][A-Za-z]{1,20}){0,2}))?\.?"
)
_SCALES = frozenset(
    ("hundred", "thousand", "million", "billion", "trillion", "dozen", "dozens", "k", "mn", "bn", "squared", "cubed")
)
_UNIFIED = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u202f": None, "\u2009": None})
_HASH = re.compile(r"####\s*(\S[^\n]*?)\s*\Z")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.S)


def is_empty(value: Any) -> bool:
    """True for what is no gold: null, blank, or a sentinel such as `n/a` or `proof`."""
    if value is None:
        return True
    if isinstance(value, str):
        return value.strip().lower() in _SENTINELS
    if isinstance(value, list | tuple):
        return all(is_empty(v) for v in value)
    return isinstance(value, Mapping) and not value


def number(value: Any) -> Decimal | None:
    """The one number a gold states, thousands separators, currency and a unit aside; None for anything else.

    The grammar is that of the template numeric, so what counts as readable here is readable there; a test holds it.
    """
    if isinstance(value, bool) or value is None:
        return None
    text = str(value)
    text = (text if text.isascii() else text.translate(_UNIFIED)).strip()
    if len(text) <= 40 and text.isascii() and text.isdigit():
        return Decimal(text)
    found = _NUMBER.fullmatch(text) if len(text) <= 200 else None
    if found is None or (found["sign"] and found["late_sign"]):
        return None
    if found["unit"] and _SCALES.intersection(re.split(r"[ /]", found["unit"].lower())):
        return None
    sign = "-" if "-" in (found["sign"], found["late_sign"]) else ""
    return Decimal(f"{sign}{found['digits'].replace(',', '')}E{found['power'] or 0}")


def after_hash(text: str) -> str | None:
    """What follows the last `####`, as in GSM8K; None when the text does not end in one."""
    found = _HASH.search(text[text.rfind("####") :]) if "####" in text else None
    return found[1] if found else None


def boxed(text: str) -> str | None:
    """Content of the last `\\boxed{...}` or `\\fbox{...}` whose braces balance, without the boxes inside of it."""
    end = len(text)
    while (start := max(text.rfind("\\boxed", 0, end), text.rfind("\\fbox", 0, end))) >= 0:
        opened = _BOX.match(text, start)
        content = _balanced(text, opened.end()) if opened else None
        if content is not None and content.strip():
            return content.strip()
        end = start
    return None


def _balanced(text: str, begin: int) -> str | None:
    """What stands up to the brace that closes the one before `begin`; escaped braces are text."""
    depth = 1
    for brace in _BRACE.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[begin : brace.start()]
    return None


def gold_number(value: Any, format: str) -> Decimal | None:
    """The number of a gold in one of the numeric formats."""
    if format == "gsm8k_hash":
        value = after_hash(value) if isinstance(value, str) else None
    return number(value)


def canonical(found: Decimal) -> str:
    """A number as a person writes it: `1200`, `0.5`, `-3`."""
    text = format(found, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def as_text(value: Any) -> str:
    """A gold as one text: JSON for lists and objects."""
    if isinstance(value, str):
        return value
    return (
        json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, list | dict | bool) else str(value)
    )


def normalised(text: str) -> str:
    """NFKC, case-folded, white space collapsed: two prompts with this in common are the same prompt."""
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split())
