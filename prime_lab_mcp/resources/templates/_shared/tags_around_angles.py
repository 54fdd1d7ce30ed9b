"""The answer tag of a reply: what stands in it, or that there is none that counts. What is tagged may hold a `<`."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)answer>", re.I)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.I)
_THOUGHT_START = re.compile(r"<think(?:ing)?>", re.I)


def tagged(reply: str) -> list[str] | None:
    """The contents of all answer tags that are not blank, in order; None when a tag is broken or nested.

    Tags inside of a thought, closed or not, do not count.
    """
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    parts = _TAG.split(said)  # text, slash or nothing, text, slash or nothing, ..., text
    slashes = parts[1::2]
    if len(slashes) % 2 or slashes != ["", "/"] * (len(slashes) // 2):
        return None
    return [content for content in parts[2::4] if content.strip()]


def can_be_tagged(text: str) -> bool:
    """False for a text that would end the tag it stands in, or pass for a thought."""
    return not any(mark.search(text) for mark in (_TAG, _THOUGHT_START, _THOUGHT_END))
