"""What is asked, how a reply gives its answer, and when that answer is right. Pure: no model, no verifiers.

A gold that is a number is compared as a number, any other as a short text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from shared_template import numbers
from shared_template.tags import tagged

FORMAT = "Give the final answer, and nothing else, in answer tags: <answer>ANSWER</answer>"
_BARE = re.compile(r"[-+−]?\s?[$€£¥]?\s?[0-9][0-9,]*(?:\.[0-9]+)?\s?%?")
"""A gold of digits only. `3 May` is a text: read as a number, it would equal `3 June`."""
_WRAPPERS = (("**", "**"), ("`", "`"), ('"', '"'), ("“", "”"), ("'", "'"))
_ARTICLE = re.compile(r"(?:the|an|a) (?=.)")
_LONGEST = 300


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The gold as plain digits or as one line of text; None when it is empty, longer than 300, or cannot be tagged."""
    text = " ".join(str(row["answer"]).rpartition("####")[2].split())
    if not text or len(text) > _LONGEST or "<" in text or not plain(text):
        return None
    number = numbers.read(text) if _BARE.fullmatch(text) else None
    return text if number is None else numbers.show(number)


def score(reply: str, gold: str) -> float:
    """1 when the tagged answer equals the gold; nothing the model writes is ever evaluated."""
    answer = given(reply)
    return 0.0 if answer is None else float(equal(answer, gold))


def in_form(reply: str) -> bool:
    """The reply gives one answer in answer tags, right or wrong."""
    return given(reply) is not None


def given(reply: str) -> str | None:
    """The answer in the tags of a reply; None when there is none, or several that differ."""
    found = [content for content in tagged(reply) or () if plain(content)]
    return found[0] if len({plain(content) for content in found}) == 1 else None


def equal(answer: str, gold: str) -> bool:
    """Equal as numbers where the gold is one, else as texts."""
    wanted = numbers.read(gold) if _BARE.fullmatch(gold) else None
    if wanted is None:
        return plain(answer) == plain(gold)
    number = numbers.read(answer)
    return number is not None and numbers.same(number, wanted)


def plain(text: str) -> str:
    """A text without what does not matter: case, white space, quotes, a leading article, a final full stop."""
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".").rstrip()
    for before, after in _WRAPPERS:
        if text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after):
            text = text[len(before) : -len(after)].strip().rstrip(".")
    return _ARTICLE.sub("", text, count=1) if _ARTICLE.match(text) else text
