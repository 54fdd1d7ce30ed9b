"""Runs in the task's runtime, on its own: python3 check.py GIVEN.json, which holds `answer` and `gold` as texts.

Writes {"right": true} or {"right": false}. Standard library only, because the image may hold nothing else. It imports
nothing of its package, and never evaluates the answer.
"""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from pathlib import Path

_NUMBER = re.compile(
    r"[-+]?[$€£]?\s?(?P<digits>[0-9][0-9,]{0,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})\s?%?(?:\s[A-Za-z]{1,20})?\.?"
)
TOLERANCE = Decimal("1e-6")
"""Relative, for golds that are no integers."""


def right(answer: str, gold: str) -> bool:
    """Equal as numbers where the gold is one, else as texts, case and a final full stop aside."""
    wanted = _number(gold)
    if wanted is None:
        return _plain(answer) == _plain(gold)
    given = _number(answer)
    if given is None:
        return False
    exact = wanted == wanted.to_integral_value()
    return given == wanted if exact else abs(given - wanted) <= TOLERANCE * abs(wanted)


def _number(text: str) -> Decimal | None:
    found = _NUMBER.fullmatch(text.strip().replace("−", "-"))
    if found is None:
        return None
    number = Decimal(found["digits"].replace(",", ""))
    return -number if found[0].startswith("-") else number


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".").strip("\"'` ")


if __name__ == "__main__":
    case = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stdout.write(json.dumps({"right": right(case["answer"], case["gold"])}) + "\n")
