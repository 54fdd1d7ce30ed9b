"""The answer of a reply, in tags. An answer may hold a `<`, but no answer tag."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)answer>", re.I)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.I)
_THOUGHT_START = re.compile(r"<think(?:ing)?>", re.I)


def answer_of(reply: str) -> str | None:
    """What stands in the answer tags; None when there are none, broken or nested ones, or several that differ.

    Tags inside of a thought, closed or not, do not count.
    """
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    parts = _TAG.split(said)  # text, slash or nothing, text, slash or nothing, ..., text
    slashes = parts[1::2]
    if len(slashes) % 2 or slashes != ["", "/"] * (len(slashes) // 2):
        return None
    found = {content.strip() for content in parts[2::4] if content.strip()}
    return found.pop() if len(found) == 1 else None


def can_be_tagged(text: str) -> bool:
    """False for a text that would end the tag it stands in, or pass for a thought."""
    return not any(mark.search(text) for mark in (_TAG, _THOUGHT_START, _THOUGHT_END))
