"""What is asked, how a reply gives its answer, and when that answer is right. Pure: no model, no environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from choice_template.options import LETTERS
from choice_template.tags import tagged

FORMAT = "Then give the letter of the right option, and nothing else, in answer tags: <answer>LETTER</answer>"
_WRAPPERS = (("**", "**"), ("`", "`"), ("\\boxed{", "}"), ("\\text{", "}"), ("$", "$"))
_LETTER = re.compile(
    r"(?:(?:option|answer|choice)\s+)?(?:\((?P<round>[A-J])\)|(?P<plain>[A-J]))(?P<mark>[).:])?(?P<text>\s+\S.{0,500})?",
    re.I | re.S,
)
_ANOTHER = re.compile(r"(?:^|\W)\(?[A-J][).:](?:\W|$)|(?:\b(?:or|and|not)|[,/&])\s*\(?[A-J]\b(?!')", re.I)


def ask(row: Mapping[str, Any]) -> str:
    """The user's message: the question, then one line per option, unless they stand in the question."""
    lines = [f"{letter}) {text}" for letter, text in zip(LETTERS, row.get("options") or (), strict=False)]
    return "\n\n".join(part for part in (str(row["question"]), "\n".join(lines)) if part)


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The letter of the right option; None when it is none of those offered."""
    letter = str(row["answer"]).strip().upper()
    offered = len(row.get("options") or ()) or len(LETTERS)
    return letter if len(letter) == 1 and letter in LETTERS[:offered] else None


def reply_with(gold: str) -> str:
    """A reply that gives this answer in the right form, for worked examples."""
    return f"<answer>{gold}</answer>"


def score(reply: str, gold: str) -> float:
    """1 when the tagged letter is the gold."""
    return float(_given(reply) == gold.strip().upper())


def in_form(reply: str) -> bool:
    """The reply gives one letter in answer tags, right or wrong."""
    return _given(reply) is not None


def _given(reply: str) -> str | None:
    letters = {_letter(content) for content in tagged(reply) or ()}
    return letters.pop() if len(letters) == 1 else None


def _letter(content: str) -> str | None:
    """The one option named: `B`, `(B)`, `b.`, `B) its text`. Text that names another one too is no answer."""
    text = content[:600].strip()
    for before, after in _WRAPPERS:
        if text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after):
            text = text[len(before) : -len(after)].strip()
    found = _LETTER.fullmatch(text)
    if found is None:
        return None
    if found["text"] and (not (found["mark"] or found["round"]) or _ANOTHER.search(found["text"])):
        return None
    return str(found["round"] or found["plain"]).upper()
