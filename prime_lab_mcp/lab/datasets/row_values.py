"""Reads the values of rows: converts them to JSON, finds values by dotted paths, and reads conversations.

Known layouts of conversations are `{role, content}` (OpenAI), `{from, value}` (ShareGPT), and lists of such lists, one
for each turn (BFCL). This module uses only the standard library, because the toolchain's interpreter runs it too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from prime_lab_mcp.lab.datasets import golds

CLIP_HEAD, CLIP_TAIL = 8_000, 4_000
"""Characters that stay at the start and at the end of a long text. Golds are often at the end (`#### 42`)."""
_DEPTH = 8
_BITS = 14_000
PLAIN_KINDS = frozenset({str, int, bool, type(None)})
"""Types whose values are JSON as they are, but for integers of thousands of digits."""


def as_json_value(value: Any, depth: int = _DEPTH) -> Any:
    """Convert a value to JSON types. A non-finite number becomes None, and bytes become a text with their length."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _BITS else f"<integer of {value.bit_length()} bits>"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if depth == 0:
        return f"<{type(value).__name__}>"
    if isinstance(value, Mapping):
        return {str(k): as_json_value(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [as_json_value(v, depth - 1) for v in value]
    if callable(getattr(value, "tolist", None)):
        return as_json_value(value.tolist(), depth - 1)
    if callable(getattr(value, "isoformat", None)):
        return value.isoformat()
    return str(value)[:CLIP_HEAD]


def holds_bytes(values: list[Any]) -> bool:
    """Return whether the first non-null value is binary, or an object with binary data (an image)."""
    first = next((v for v in values if v is not None), None)
    if isinstance(first, Mapping):
        return any(isinstance(v, bytes | bytearray) for v in first.values())
    return isinstance(first, bytes | bytearray)


LONGEST_WHOLE = CLIP_HEAD + CLIP_TAIL
"""Most characters of a text that `clipped_value` leaves whole."""


def clipped_value(value: Any) -> Any:
    """Return the value without the middle of long texts, and with at most 1,000 items of each list."""
    if isinstance(value, str):
        return f"{value[:CLIP_HEAD]}… {value[-CLIP_TAIL:]}" if len(value) > LONGEST_WHOLE else value
    if isinstance(value, list):
        return [clipped_value(v) for v in value[:1000]]
    if isinstance(value, dict):
        return {k: clipped_value(v) for k, v in value.items()}
    return value


def size_of(value: Any) -> int:
    """Return the approximate number of characters of a JSON value."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, list):
        return 2 + sum(map(size_of, value))
    if isinstance(value, dict):
        size = 2
        for name, inner in value.items():
            size += len(name) + 4 + (len(inner) + 2 if type(inner) is str else size_of(inner))
        return size
    return 8


ASSISTANTS = frozenset({"assistant", "gpt", "chatgpt", "model", "bot"})


def chat_messages(value: Any) -> list[Mapping[str, Any]] | None:
    """Return the messages of a conversation as one list; None for any other value."""
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
    """Return whether a value is a conversation."""
    return chat_messages(value) is not None


def message_role(message: Mapping[str, Any]) -> str:
    """Return the role of a message, in lower case."""
    return str(message.get("role") or message.get("from") or "").lower()


def message_content(message: Mapping[str, Any]) -> str:
    """Return the text of a message. If its content is a list of parts, return the texts of the parts."""
    content = message.get("content") if "content" in message else message.get("value")
    if isinstance(content, list):
        content = "\n".join(str(p.get("text") or "") for p in content if isinstance(p, Mapping))
    return content if isinstance(content, str) else "" if content is None else str(content)


def messages_before_reply(value: list[Mapping[str, Any]]) -> str:
    """Return the text of all messages before the assistant's final turns."""
    end = len(value)
    while end and message_role(value[end - 1]) in ASSISTANTS:
        end -= 1
    return "\n\n".join(text for m in value[:end] if (text := message_content(m).strip()))


def last_reply(value: Any) -> str | None:
    """Return the last message of a conversation if it is the assistant's; otherwise None."""
    messages = chat_messages(value)
    return message_content(messages[-1]) if messages and message_role(messages[-1]) in ASSISTANTS else None


Row = Mapping[str, Any]
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_GAP = re.compile(r"[\s\-/]+")


def value_at(row: Row, path: str) -> Any:
    """Return the value of a column, or of a field inside a column (`answers.text`, `a.b.c`); None if it is missing."""
    if path in row:
        return row[path]
    head, _, rest = path.partition(".")
    inner = row.get(head)
    return value_at(inner, rest) if rest and isinstance(inner, Mapping) else None


@lru_cache(4096)
def snake_case(name: str) -> str:
    """Convert a name to snake case: `answerKey`, `Answer Key` and `answer-key` become `answer_key`."""
    return _GAP.sub("_", _HUMP.sub("_", name.strip())).lower()


def prompt_text(value: Any) -> str:
    """Return a value as text of a prompt. A conversation becomes the messages before the assistant's last turns."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        messages = chat_messages(value)
        if messages is not None:
            return messages_before_reply(messages)
        if all(isinstance(v, str | list) for v in value):
            return "\n\n".join(v.strip() if isinstance(v, str) else " ".join(str(p).strip() for p in v) for v in value)
    return golds.gold_text(value)


def compose_prompt(row: Row, columns: tuple[str, ...] | list[str]) -> str:
    """Return the prompt of a row as one text, with a paragraph for each of the columns, in order."""
    if len(columns) == 1:
        return prompt_text(value_at(row, columns[0])).strip()
    return "\n\n".join(text for name in columns if (text := prompt_text(value_at(row, name)).strip()))
