"""Types of arguments that are names. Validators limit them, so that the schema that every client reads stays short."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def slug(text: str) -> str:
    """Return an id or a public name. Raises ValueError for other text."""
    if not _SLUG.fullmatch(text):
        raise ValueError(
            "must be 1 to 80 letters, digits, dots, hyphens and underscores, starting with a letter or digit"
        )
    return text


def _short(text: str) -> str:
    if not 1 <= len(text) <= 300:
        raise ValueError("must have 1 to 300 characters")
    return text


def _dollars(amount: float) -> float:
    if not 0 < amount <= 1_000_000:
        raise ValueError("must be US dollars above 0 and at most 1,000,000")
    return amount


def between(low: float, high: float) -> AfterValidator:
    """A bound that the published schema does not state, because every client reads the schema at every start."""

    def check(number: float) -> float:
        if not low <= number <= high:
            raise ValueError(f"must be between {low:g} and {high:g}")
        return number

    return AfterValidator(check)


Dollars = Annotated[float, AfterValidator(_dollars)]
Slug = Annotated[str, AfterValidator(slug)]
"""An id, or the public name of a user or team. It cannot begin like a command-line option."""
Text = Annotated[str, AfterValidator(_short)]
Positive = Annotated[int, between(1, 10_000_000)]
