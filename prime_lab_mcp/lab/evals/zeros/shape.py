"""What a reply's text alone says about its end, and the form that its prompt asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prime_lab_mcp.lab.evals.conversation import Message

_PAIR = re.compile(r"<([A-Za-z][\w-]*)>[^<]*</\1>")
_ANSWERS = frozenset({"answer", "final_answer", "final", "solution", "result", "output", "label", "response"})
_THOUGHTS = ("think", "thinking", "reasoning")
_ENDS = frozenset(".!?>})\"]'`|")
"""Last characters of a reply that is complete (facts/validation.md 3.5)."""


def asked(talk: Sequence[Message]) -> list[str]:
    """The marks that a prompt asks the answer to be in: `<answer>`, `\\boxed`. Any one of them will do."""
    before = []
    for message in talk:
        if message.role == "assistant":
            break
        before.append(message.text)
    prompt = "\n".join(before)
    tags = [f"<{name}>" for name in dict.fromkeys(_PAIR.findall(prompt)) if name.lower() in _ANSWERS]
    return [*tags, *(["\\boxed"] if "\\boxed" in prompt else [])]


def open_end(text: str, marks: Sequence[str], long: int | None) -> str | None:
    """Why a text looks as if it had been cut; None when it does not."""
    tags = [*(mark[1:-1] for mark in marks if mark.startswith("<")), *_THOUGHTS]
    for tag in tags:
        if text.count(f"<{tag}>") > text.count(f"</{tag}>"):
            return f"<{tag}> is opened and not closed"
    if text.count("```") % 2:
        return "a code fence is opened and not closed"
    if text.lstrip().startswith(("{", "[")) and _depth(text) > 0:
        return "the JSON that it begins is not closed"
    if "\\boxed{" in text and _depth(text[text.rindex("\\boxed{") :]) > 0:
        return "\\boxed{ is not closed"
    stripped = text.rstrip()
    if long is not None and len(text) >= long and stripped and stripped[-1] not in _ENDS:
        return "it is among the longest hundredth and ends in the middle of a sentence"
    return None


def _depth(text: str) -> int:
    return sum(text.count(c) for c in "{[") - sum(text.count(c) for c in "}]")
