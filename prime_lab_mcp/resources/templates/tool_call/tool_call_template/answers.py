"""What is asked, how a reply gives its calls, and when they are right. Pure: no model, no verifiers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tool_call_template.calls import Call, calls_of, fulfil, matches
from tool_call_template.tags import can_be_tagged, tagged
from tool_call_template.values import read, show

FORMAT = (
    "Then write each call as JSON in tags of its own, with its arguments as an object: "
    '<tool_call>{"name": NAME, "arguments": {ARGUMENT: VALUE}}</tool_call>'
)


def ask(row: Mapping[str, Any]) -> str:
    """The user's message: the request, then the functions that can be called, one JSON object on each line."""
    functions = [show(function) for function in row.get("functions") or ()]
    return "\n".join([str(row["question"]), *(["", "Functions:", *functions] if functions else [])])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The calls as JSON text, a single call as one object; None when there is no call, or one that cannot be said."""
    found = row.get("answer")
    try:
        text = (
            found
            if isinstance(found, str)
            else show(found[0] if isinstance(found, list) and len(found) == 1 else found)
        )
        calls = calls_of(read(text))
    except ValueError:
        return None
    sayable = calls is not None and all(matches(call, call) for call in calls) and can_be_tagged(text)
    return text if sayable else None


def reply_with(gold: str) -> str:
    """A reply that makes these calls in the right form, for worked examples."""
    calls = json.loads(gold)  # `read` gives decimals, which `show` cannot write
    texts = [show(call) for call in calls] if isinstance(calls, list) else [gold]
    return "\n".join(f"<tool_call>{text}</tool_call>" for text in texts)


def score(reply: str, gold: str) -> float:
    """1 when the reply makes the calls of the gold, in any order, and no other."""
    given, golds = _given(reply), calls_of(read(gold))
    return float(given is not None and golds is not None and fulfil(given, golds))


def in_form(reply: str) -> bool:
    """All tool_call tags of the reply hold calls, right or wrong, and there is one at least."""
    return _given(reply) is not None


def _given(reply: str) -> list[Call] | None:
    found: list[Call] = []
    for content in tagged(reply) or ():
        try:
            calls = calls_of(read(content))
        except ValueError:
            return None
        if calls is None:
            return None
        found += calls
    return found or None
