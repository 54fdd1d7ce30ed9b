"""What is asked, how a reply gives its answer, and when that answer is right. Pure: no model, no verifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from json_template.tags import can_be_tagged, tagged
from json_template.values import read, same, show, unfenced

FORMAT = "Then give the result as JSON, and nothing else, in answer tags: <answer>JSON</answer>"


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The gold as JSON text; None when it is no object or list, is empty, or cannot be said in tags."""
    found = row.get("answer")
    try:
        text = unfenced(found) if isinstance(found, str) else show(found)
        value = read(text)
    except ValueError:
        return None
    return text if isinstance(value, dict | list) and value and can_be_tagged(text) else None


def reply_with(gold: str) -> str:
    """A reply that gives this answer in the right form, for worked examples."""
    return f"<answer>{gold}</answer>"


def score(reply: str, gold: str) -> float:
    """1 when the tagged JSON is the gold's value as a whole; there is no part of it for a part of the value."""
    given = _given(reply)
    return float(given is not None and same(given, read(gold)))


def in_form(reply: str) -> bool:
    """The reply holds one JSON object or list in answer tags, right or wrong."""
    return _given(reply) is not None


def _given(reply: str) -> dict[str, Any] | list[Any] | None:
    """The tagged value; None when there is none, or several that differ."""
    try:
        found = [read(content) for content in tagged(reply) or ()]
    except ValueError:
        return None
    if not found or not isinstance(found[0], dict | list) or not found[0]:
        return None
    return found[0] if all(same(found[0], other) for other in found) else None
