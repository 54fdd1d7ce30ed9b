"""Boxes in text: `\\boxed{...}` and `\\fbox{...}` with balanced braces."""

from __future__ import annotations

import re

_BOX = re.compile(r"\\f?box(?:ed)?(?![A-Za-z])\s*")
_BARE = re.compile(r"[^\s{}$\\.,;]{1,40}")
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.I)
_THOUGHT_START = re.compile(r"<think(?:ing)?>", re.I)
MOST = 60
"""Boxes in one text above which none is read."""


def boxed(reply: str) -> list[str] | None:
    """The contents of all boxes that are not blank, in order; None when a box is broken or nested.

    Boxes inside of a thought, closed or not, do not count.
    """
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    found = boxes(said)
    if found is None or any(_BOX.search(content) for content in found):
        return None
    return [content for content in found if content.strip()]


def boxes(text: str) -> list[str] | None:
    """The contents of all outer boxes; None when one has no closing brace, or there are more than MOST."""
    found: list[str] = []
    place = 0
    while (start := _BOX.search(text, place)) is not None:
        place = start.end()
        if text[place : place + 1] == "{":
            end = _closing(text, place)
            if end is None:
                return None
            found.append(text[place + 1 : end])
            place = end
        elif bare := _BARE.match(text, place):  # `\boxed 5`, as some solutions of MATH have it
            found.append(bare[0])
        if len(found) > MOST:
            return None
    return found


def _closing(text: str, place: int) -> int | None:
    """Where the brace that opens at `place` is closed; None when it stays open."""
    depth, escaped = 0, False
    for at in range(place, len(text)):
        if escaped or text[at] == "\\":
            escaped = not escaped
            continue
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return None
