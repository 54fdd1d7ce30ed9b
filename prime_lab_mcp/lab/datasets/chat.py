"""Conversations in the forms that datasets keep them in.

Known are `{role, content}` (OpenAI), `{from, value}` (ShareGPT), and lists of such lists, one per turn (BFCL).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ASSISTANTS = frozenset({"assistant", "gpt", "chatgpt", "model", "bot"})


def messages(value: Any) -> list[Mapping[str, Any]] | None:
    """The messages of a conversation, in one list; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(turn, list) for turn in value):
        value = [message for turn in value for message in turn]
    return value if value and all(map(_is_message, value)) else None


def _is_message(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return ("role" in value and ("content" in value or "tool_calls" in value)) or ("from" in value and "value" in value)


def is_chat(value: Any) -> bool:
    """True for a conversation."""
    return messages(value) is not None


def speaker(message: Mapping[str, Any]) -> str:
    """Who speaks, in small letters."""
    return str(message.get("role") or message.get("from") or "").lower()


def said(message: Mapping[str, Any]) -> str:
    """The text of a message; of one made of parts, its texts."""
    content = message.get("content") if "content" in message else message.get("value")
    if isinstance(content, list):
        content = "\n".join(str(p.get("text") or "") for p in content if isinstance(p, Mapping))
    return content if isinstance(content, str) else "" if content is None else str(content)


def asked(value: list[Mapping[str, Any]]) -> str:
    """What stands before the last reply: all messages less the assistant's at the end."""
    end = len(value)
    while end and speaker(value[end - 1]) in ASSISTANTS:
        end -= 1
    return "\n\n".join(text for m in value[:end] if (text := said(m).strip()))


def replied(value: Any) -> str | None:
    """The last reply of a conversation that ends in one; None when it ends in a question."""
    found = messages(value)
    return said(found[-1]) if found and speaker(found[-1]) in ASSISTANTS else None
