"""Values of any reader as JSON values, bounded. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

HEAD, TAIL = 8_000, 4_000
"""Characters kept of a long text: both ends, because golds stand at the end (`#### 42`)."""
_DEPTH = 8
_BITS = 14_000
_SIMPLE = frozenset({str, int, bool, type(None)})


def plain_column(values: list[Any]) -> list[Any]:
    """`values` with only JSON types in them; the same list where it is so already."""
    kinds = set(map(type, values))
    if kinds <= _SIMPLE:
        return values
    return [plain(v) for v in values]


def plain(value: Any, depth: int = _DEPTH) -> Any:
    """`value` with only JSON types in it. What is not finite becomes null, bytes their number."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _BITS else f"<integer of {value.bit_length()} bits>"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if depth == 0:
        return f"<{type(value).__name__}>"
    if isinstance(value, Mapping):
        return {str(k): plain(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(v, depth - 1) for v in value]
    if callable(getattr(value, "tolist", None)):
        return plain(value.tolist(), depth - 1)
    if callable(getattr(value, "isoformat", None)):
        return value.isoformat()
    return str(value)[:HEAD]


def holds_bytes(values: list[Any]) -> bool:
    """Whether the first value that is there is binary, or an object with binary data (an image)."""
    first = next((v for v in values if v is not None), None)
    if isinstance(first, Mapping):
        return any(isinstance(v, bytes | bytearray) for v in first.values())
    return isinstance(first, bytes | bytearray)


def clipped(value: Any) -> Any:
    """`value` with the middle of every long text taken out."""
    if isinstance(value, str):
        return f"{value[:HEAD]}… {value[-TAIL:]}" if len(value) > HEAD + TAIL else value
    if isinstance(value, list):
        return [clipped(v) for v in value[:1000]]
    if isinstance(value, dict):
        return {k: clipped(v) for k, v in value.items()}
    return value


def size_of(value: Any) -> int:
    """Characters of a JSON value, about."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, list):
        return 2 + sum(map(size_of, value))
    if isinstance(value, dict):
        return 2 + sum(len(k) + 4 + size_of(v) for k, v in value.items())
    return 8
