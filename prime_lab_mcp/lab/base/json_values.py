"""Converts values of foreign JSON and TOML to the expected types. A value of another type becomes None or empty."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def text_or_none(value: object) -> str | None:
    """Return a non-empty string; None for anything else."""
    return value if isinstance(value, str) and value else None


def finite_or_none(value: object) -> float | None:
    """Return a finite number; None for anything else. True and False do not count as numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def positive_int_or_none(value: object) -> int | None:
    """Return an integer of at least 1; None for anything else, including the float 4.0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
