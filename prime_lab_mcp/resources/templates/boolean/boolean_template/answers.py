"""What is asked, how a reply gives its answer, and when that answer is right. Pure: no model, no environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boolean_template.tags import tagged

FORMAT = (
    "Then give yes or no, and nothing else, in answer tags: <answer>yes</answer> or <answer>no</answer>. "
    "For a statement, yes means that it is true."
)
_WORDS = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
_GOLDS = _WORDS | {"1": "yes", "0": "no", "y": "yes", "n": "no", "t": "yes", "f": "no", "1.0": "yes", "0.0": "no"}
_WRAPPERS = (("**", "**"), ("`", "`"), ('"', '"'), ("'", "'"), ("\\boxed{", "}"), ("\\text{", "}"))


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """`yes` or `no`; None when the answer is neither."""
    return _GOLDS.get(_plain(str(row["answer"])))


def reply_with(gold: str) -> str:
    """A reply that gives this answer in the right form, for worked examples."""
    return f"<answer>{gold}</answer>"


def score(reply: str, gold: str) -> float:
    """1 when the tagged word says what the gold says."""
    given = _given(reply)
    return float(given is not None and given == _GOLDS.get(_plain(gold)))


def in_form(reply: str) -> bool:
    """The reply gives yes or no in answer tags, right or wrong."""
    return _given(reply) is not None


def _given(reply: str) -> str | None:
    """What all tags say; more than the one word, such as `not yes` or `yes and no`, is no answer."""
    found = {_WORDS.get(_plain(content)) for content in tagged(reply) or ()}
    return found.pop() if len(found) == 1 else None


def _plain(text: str) -> str:
    text = text[:100].strip()
    for before, after in _WRAPPERS:
        if text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after):
            text = text[len(before) : -len(after)].strip()
    return text.casefold().removesuffix(".").removesuffix("!")
