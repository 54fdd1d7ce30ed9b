"""JSON texts read strictly and compared as values: order of keys, white space and the spelling of numbers aside."""

from __future__ import annotations

import json
import re
import unicodedata
from decimal import Decimal
from typing import Any

LONGEST = 50_000
"""Characters of a JSON text."""
DEEPEST = 40
"""Levels of lists and objects inside of each other."""
_FENCE = re.compile(r"```(?:json[c5]?)?[ \t]*\n(.*?)\n?[ \t]*```", re.S | re.I)


def read(text: str) -> Any:
    """The value of a JSON text, also one in a code fence. Numbers with a point or an exponent become Decimal.

    Raises ValueError for anything that JSON does not define or that two readers could take for different things: NaN,
    a key that comes twice, text before or after the value; and for what is too long or too deep.
    """
    text = unfenced(text)
    if len(text) > LONGEST:
        raise ValueError("too long")
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=Decimal)
    except (RecursionError, ArithmeticError) as error:
        raise ValueError("too deep, or a number out of range") from error
    _refuse_deep(found, DEEPEST)
    return found


def unfenced(text: str) -> str:
    """The text without the code fence that it may stand in."""
    found = _FENCE.fullmatch(text.strip())
    return found[1].strip() if found else text.strip()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _refuse_deep(found: Any, levels: int) -> None:
    if isinstance(found, list | dict):
        if not levels:
            raise ValueError("too deep")
        for inner in found.values() if isinstance(found, dict) else found:
            _refuse_deep(inner, levels - 1)


def same(left: Any, right: Any) -> bool:
    """Equal as JSON values: 1 is 1.0, true is not 1, lists keep their order, objects do not."""
    if isinstance(left, dict) and isinstance(right, dict):
        ours, theirs = _by_key(left), _by_key(right)
        return (
            len(left) == len(right)
            and ours.keys() == theirs.keys()
            and all(same(ours[key], theirs[key]) for key in ours)
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, str) and isinstance(right, str):
        return unicodedata.normalize("NFC", left) == unicodedata.normalize("NFC", right)
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    return _is_number(left) and _is_number(right) and bool(left == right)


def _by_key(found: dict[str, Any]) -> dict[str, Any]:
    return {unicodedata.normalize("NFC", key): inner for key, inner in found.items()}


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float | Decimal)


def show(found: Any) -> str:
    """A value as JSON text. Raises ValueError for NaN, infinities and what JSON has no form for."""
    try:
        return json.dumps(found, ensure_ascii=False, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError("no JSON value") from error
