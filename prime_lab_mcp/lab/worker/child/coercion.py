"""Converts any Python value to JSON that every JSON parser accepts.

The values come from the environment's code and can be anything: cycles, NaN, huge integers, lone surrogates, objects
whose repr raises.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

TEXT = 200_000
"""Most characters of one string. A longer string is cut, and a note with the number of cut characters is appended."""
_ITEMS = 20_000
_DEPTH = 12
_BITS = 10_000


def text(value: object, limit: int = TEXT) -> str:
    """Convert a value to text that can be encoded as UTF-8, cut after `limit` characters."""
    try:
        string = value if isinstance(value, str) else str(value)
    except BaseException:
        string = f"<{type(value).__name__}>"
    if len(string) > limit:
        string = f"{string[:limit]}… (+{len(string) - limit} characters)"
    return string.encode("utf-8", "replace").decode("utf-8")


def to_json(value: Any, depth: int = _DEPTH) -> Any:
    """Convert a value to JSON types. Non-finite floats become None, and unknown objects become their repr.

    Containers that are nested deeper than `depth` become the name of their type.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _BITS else f"<integer of {value.bit_length()} bits>"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth <= 0:
        return f"<{type(value).__name__}>"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    try:
        return _compound(value, depth - 1)
    except Exception:
        return f"<{type(value).__name__}>"


def _compound(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        pairs = list(value.items())[:_ITEMS]
        return {text(k, 1000): to_json(v, depth) for k, v in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(v, depth) for v in list(value)[:_ITEMS]]
    if callable(getattr(value, "model_dump", None)):
        return to_json(value.model_dump(mode="json"), depth)
    if callable(getattr(value, "tolist", None)):  # numpy scalars and arrays
        return to_json(value.tolist(), depth)
    return text(repr(value), 1000)


def number(value: Any) -> float | None:
    """Convert a value to a finite float; None if that is impossible."""
    try:
        converted = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return converted if math.isfinite(converted) else None


def encode(value: Any) -> bytes:
    """Encode a value as one line of JSON."""
    return _ENCODER.encode(value).encode() + b"\n"


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
"""One encoder for all replies, because `json.dumps` makes a new one for each."""
