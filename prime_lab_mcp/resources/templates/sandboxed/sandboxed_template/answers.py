"""What is asked and how a reply gives its answer. Whether it is right is found out in the runtime, by check.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxed_template.tags import tagged

FORMAT = "At the end give the final answer, and nothing else, in answer tags: <answer>ANSWER</answer>"
_LONGEST = 300


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The gold as one line of text; None when it is empty, longer than 300, or cannot be tagged."""
    text = " ".join(str(row["answer"]).rpartition("####")[2].split())
    return text if text.strip(".") and len(text) <= _LONGEST and "<" not in text else None


def given(reply: str) -> str | None:
    """The answer in the tags of a reply, as one line; None when there is none, or several that differ."""
    found = {" ".join(content.split())[:_LONGEST] for content in tagged(reply) or ()}
    answer = found.pop() if len(found) == 1 else ""
    return answer if answer.strip(".") else None
