"""The answer tag of a reply: what stands in it, or that there is none that counts."""

from __future__ import annotations

import re

_TAG = re.compile(r"<answer>([^<]*)</answer>", re.I)
_OPEN, _CLOSE = re.compile(r"<answer>", re.I), re.compile(r"</answer>", re.I)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.I)
_THOUGHT_START = re.compile(r"<think(?:ing)?>", re.I)


def tagged(reply: str) -> list[str] | None:
    """The contents of all answer tags that are not blank, in order; None when a tag is broken or nested.

    Tags inside of a thought, closed or not, do not count.
    """
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    found = _TAG.findall(said)
    if not len(found) == len(_OPEN.findall(said)) == len(_CLOSE.findall(said)):
        return None
    return [content for content in found if content.strip()]
