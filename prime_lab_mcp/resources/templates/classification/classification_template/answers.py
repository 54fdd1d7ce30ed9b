"""What is asked, how a reply gives its answer, and when that answer is right. Pure: no model, no environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from classification_template.tags import tagged

LABELS: tuple[str, ...] = ("business", "health", "science", "science fiction", "sports", "travel")
"""The classes: by their number where the data number them, as they are shown to the model."""
FORMAT = "\n".join(
    (
        "Then give one label, and nothing else, in answer tags: <answer>LABEL</answer>",
        "LABEL is exactly one of:",
        *(f"- {label}" for label in LABELS),
    )
)
_WRAPPERS = (("**", "**"), ("`", "`"), ('"', '"'), ("'", "'"), ("\\boxed{", "}"), ("\\text{", "}"))


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The label as LABELS spells it; None when it is none of them."""
    return label_of(str(row["answer"]))


def reply_with(gold: str) -> str:
    """A reply that gives this answer in the right form, for worked examples."""
    return f"<answer>{gold}</answer>"


def score(reply: str, gold: str) -> float:
    """1 when the tagged label is the gold."""
    given = _given(reply)
    return float(given is not None and given == label_of(gold))


def in_form(reply: str) -> bool:
    """The reply gives one of the labels in answer tags, right or wrong."""
    return _given(reply) is not None


def label_of(text: str) -> str | None:
    """The label that a text is, case, spaces and underscores aside; a text that only holds a label is none."""
    text = text[:500].strip()
    for before, after in _WRAPPERS:
        if text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after):
            text = text[len(before) : -len(after)].strip()
    if text in LABELS:
        return text
    same = [label for label in LABELS if _plain(label) == _plain(text)]
    return same[0] if len(same) == 1 else None


def _given(reply: str) -> str | None:
    labels = {label_of(content) for content in tagged(reply) or ()}
    return labels.pop() if len(labels) == 1 else None


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text.casefold()).strip().removesuffix(".").strip() or text
