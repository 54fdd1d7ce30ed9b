"""What a row of the source dataset becomes: a request, the functions at hand, and the calls that fulfil it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tool_call_template.answers import gold_of
from tool_call_template.columns import question, value
from tool_call_template.sources import calls_in, functions_in

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "answer"
_FUNCTIONS = ("functions", "tools", "function", "available_tools", "apis", "system")
"""Columns that describe functions; ToolACE does in the system prompt."""


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its calls in one form and its functions; None when it asks nothing, or its answer makes no call.

    Of a conversation, what comes before the assistant's first turn is the request, and that turn the answer. A row
    whose answer calls a function that it does not describe is left out.
    """
    found = value(row, ANSWER_COLUMN)
    asked = _request(row)
    if isinstance(found, list) and found and all(_speaker(turn) for turn in found):
        reply: Mapping[str, Any] = next((turn for turn in found if _speaker(turn) in ("assistant", "gpt")), {})
        found = reply if reply.get("tool_calls") else reply.get("content") or reply.get("value")
    try:
        calls = calls_in(found)
    except (ValueError, TypeError):
        return None
    functions = next((known for name in _FUNCTIONS if (known := functions_in(row.get(name)))), [])
    names = {function["name"] for function in functions}
    unknown = names and not {call["name"] for call in calls} <= names
    answer: Any = calls[0] if len(calls) == 1 else calls
    if not asked or not calls or unknown or gold_of({"answer": answer}) is None:
        return None
    return {"question": asked, **({"functions": functions} if functions else {}), "answer": answer}


def _request(row: Mapping[str, Any]) -> str:
    """The prompt columns; of a conversation, what is said up to the assistant's first turn, the system prompt aside."""
    first: dict[str, Any] = {}
    for column in PROMPT_COLUMNS:
        found = value(row, column)
        while isinstance(found, list) and found and isinstance(found[0], list):
            found = found[0]  # the leaderboard nests the turns of a conversation
        if isinstance(found, list):
            end = next((n for n, turn in enumerate(found) if _speaker(turn) in ("assistant", "gpt")), len(found))
            found = [turn for turn in found[:end] if _speaker(turn) != "system"]
        first[column] = found
    return question(first, PROMPT_COLUMNS)


def _speaker(turn: Any) -> Any:
    return (turn.get("role") or turn.get("from")) if isinstance(turn, Mapping) else None
