"""How a reply books, and when a booking is right. Pure: no model, no verifiers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

FORMAT = 'When you know everything, book in one reply: <booking>{"day": ..., ...}</booking>, a JSON object with KEYS.'
_TAG = re.compile(r"<booking>([^<]*)</booking>", re.I)
_OPEN, _CLOSE = re.compile(r"<booking>", re.I), re.compile(r"</booking>", re.I)
_THOUGHT_END, _THOUGHT_START = re.compile(r"</think(?:ing)?>", re.I), re.compile(r"<think(?:ing)?>", re.I)


def tries_to_book(reply: str) -> bool:
    """Whether a reply opens or closes a booking tag outside of its thoughts."""
    said = _visible(reply)
    return bool(_OPEN.search(said) or _CLOSE.search(said))


def booking_of(reply: str) -> dict[str, str] | None:
    """The values of the one booking of a reply by their keys; None where there is none, or several that differ."""
    said = _visible(reply)
    found = _TAG.findall(said)
    if not found or not len(found) == len(_OPEN.findall(said)) == len(_CLOSE.findall(said)):
        return None
    bookings = [_read(text) for text in found]
    return bookings[0] if all(booking == bookings[0] for booking in bookings) else None


def right(reply: str, wanted: str) -> bool:
    """Whether a reply books exactly what is wanted, case and spaces aside; nothing it writes is ever evaluated."""
    booking = booking_of(reply)
    return booking is not None and booking == _read(wanted)


def written(values: Mapping[str, str | int]) -> str:
    """A booking as JSON text."""
    return json.dumps(dict(values))


def _visible(reply: str) -> str:
    return _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]


def _read(text: str) -> dict[str, str] | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not all(type(value) in (str, int) for value in values.values()):
        return None
    return {str(key).casefold(): " ".join(str(value).casefold().split()) for key, value in values.items()}
