"""What is asked, how a reply gives its answer, and whether that is right. None of this enters the container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sandboxed_template.tags import tagged

FORMAT = "At the end give the final answer, and nothing else, in answer tags: <answer>ANSWER</answer>"
TOLERANCE = Decimal("1e-6")
"""Relative, for golds that are no integers."""
_LONGEST = 300
_NUMBER = re.compile(
    r"[-+]?[$€£]?\s?(?P<digits>[0-9][0-9,]{0,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})\s?%?(?:\s[A-Za-z]{1,20})?\.?"
)


def ask(row: Mapping[str, Any]) -> str:
    """The user's message."""
    return str(row["question"])


def rule(files: Mapping[str, str]) -> str:
    """What the reward asks for besides the answer (commands.py), so that the model knows it."""
    named = " that names a file of the question" if files else ""
    return f"An answer counts only after a command of yours{named}."


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The gold as one line of text; None when it is empty, longer than 300, or cannot be tagged."""
    text = " ".join(str(row["answer"]).rpartition("####")[2].split())
    return text if text.strip(".") and len(text) <= _LONGEST and "<" not in text else None


def given(reply: str) -> str | None:
    """The answer in the tags of a reply, as one line; None when there is none, or several that differ."""
    found = {" ".join(content.split())[:_LONGEST] for content in tagged(reply) or ()}
    answer = found.pop() if len(found) == 1 else ""
    return answer if answer.strip(".") else None


def right(answer: str, gold: str) -> bool:
    """Equal as numbers where the gold is one, else as texts, case and a final full stop aside. Evaluates nothing."""
    wanted = _number(gold)
    if wanted is None:
        return _plain(answer) == _plain(gold)
    said = _number(answer)
    if said is None:
        return False
    exact = wanted == wanted.to_integral_value()
    return said == wanted if exact else abs(said - wanted) <= TOLERANCE * abs(wanted)


def _number(text: str) -> Decimal | None:
    found = _NUMBER.fullmatch(text.strip().replace("−", "-"))
    if found is None:
        return None
    number = Decimal(found["digits"].replace(",", ""))
    return -number if found[0].startswith("-") else number


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".").strip("\"'` ")
