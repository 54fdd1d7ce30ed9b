"""Types of arguments that are names. Validators limit them, so that the schema that every client reads stays short."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def _slug(text: str) -> str:
    if not _SLUG.fullmatch(text):
        raise ValueError(
            "must be 1 to 80 letters, digits, dots, hyphens and underscores, starting with a letter or digit"
        )
    return text


def _short(text: str) -> str:
    if not 1 <= len(text) <= 300:
        raise ValueError("must have 1 to 300 characters")
    return text


Slug = Annotated[str, AfterValidator(_slug)]
"""An id, or the public name of a user or team. It cannot begin like a command-line option."""
Text = Annotated[str, AfterValidator(_short)]
