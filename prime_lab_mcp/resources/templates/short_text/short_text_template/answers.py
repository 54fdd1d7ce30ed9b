"""What is asked, how a reply gives its answer, and when that answer is right. Pure: no model, no verifiers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from short_text_template.tags import can_be_tagged, tagged
from short_text_template.texts import normal_forms, same

ANY_OF = True
"""What a list of golds means: True, any one of them is right; False, all of them are asked for, in any order."""
_ONE = "Then give the answer in as few words as possible, and nothing else, in answer tags: <answer>ANSWER</answer>"
_ALL = "Then give all answers, one on each line and nothing else, in answer tags: <answer>ANSWERS</answer>"
FORMAT = _ONE if ANY_OF else _ALL
_BULLET = re.compile(r"^(?:[-*\u2022]|\d{1,2}[.)]) +")
_MOST = 100
"""Answers that a reply may list."""


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def gold_of(row: Mapping[str, Any]) -> str | list[str] | None:
    """The gold, as a list where the row has a list; None when none of them can be said.

    Where all are asked for, one that cannot be said leaves nothing to compare with.
    """
    found = row.get("answer")
    golds = [str(g).strip() for g in (found if isinstance(found, list) else [found]) if g is not None]
    sayable = [g for g in golds if normal_forms(g) and can_be_tagged(g) and (ANY_OF or "\n" not in g)]
    if not sayable or (not ANY_OF and len(sayable) < len(golds)):
        return None
    distinct: list[str] = []
    for gold in sayable:
        if not any(same(gold, other) for other in distinct):
            distinct.append(gold)
    return distinct if isinstance(found, list) else distinct[0]


def reply_with(gold: str | Sequence[str]) -> str:
    """A reply that gives this answer in the right form, for worked examples."""
    golds = [gold] if isinstance(gold, str) else list(gold)
    answer = golds[0] if ANY_OF else "\n".join(golds)
    return f"<answer>{answer}</answer>"


def score(reply: str, gold: str | Sequence[str]) -> float:
    """1 when the tagged answer is the gold, spelling aside; never for an answer that only contains it."""
    given, golds = _given(reply), [gold] if isinstance(gold, str) else list(gold)
    if given is None:
        return 0.0
    if ANY_OF:
        return float(any(same(given, g) for g in golds))
    return float(any(_are(answers, golds) for answers in _lists(given)))


def in_form(reply: str) -> bool:
    """The reply holds one short answer in answer tags, right or wrong."""
    return _given(reply) is not None


def _given(reply: str) -> str | None:
    """The tagged answer; None when there is none that can be read, or several that differ."""
    found = [content.strip() for content in tagged(reply) or ()]
    if not found or any(content != found[0] and not same(content, found[0]) for content in found):
        return None
    parts = [found[0]] if ANY_OF else found[0].splitlines()[: _MOST + 1]
    return found[0] if all(normal_forms(part) for part in parts if part.strip()) else None


def _lists(given: str) -> Iterator[list[str]]:
    """Ways to read a text as several answers: its lines, or one line parted at its commas or semicolons."""
    lines = [_BULLET.sub("", line.strip()) for line in given.splitlines() if line.strip()]
    yield lines
    if len(lines) == 1:
        yield from ([part for part in lines[0].split(sign) if part.strip()] for sign in (";", ","))
        if lines[0].startswith("["):
            yield _json_list(lines[0])


def _json_list(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [str(f) for f in found] if isinstance(found, list) else []


def _are(answers: Sequence[str], golds: Sequence[str]) -> bool:
    """Each gold is among the answers, and nothing else is."""
    if not len(answers) == len(golds) <= _MOST:
        return False
    left = list(answers)
    for gold in golds:
        match = next((a for a in left if same(a, gold)), None)
        if match is None:
            return False
        left.remove(match)
    return True
