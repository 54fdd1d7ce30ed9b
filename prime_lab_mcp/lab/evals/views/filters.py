"""`where` of a view: a word, a task or rollout id, or comparisons such as `reward<0.5 and lookups=3`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.views.fields import MISSING, value_of
from prime_lab_mcp.lab.text import quote

WORDS = ("all", "zero", "rewarded", "error", "truncated", "suspicious")
_COMPARISON = re.compile(r"\s*([A-Za-z_][\w.\- ]*?)\s*(<=|>=|!=|==|=|<|>)\s*(.+?)\s*")
_AND = re.compile(r"\s+and\s+|\s*,\s*|\s*&&?\s*", re.I)
_KEY = re.compile(r"[\w./:#@-]{1,200}")
_PREFIXED = 4
"""Characters from which on the beginning of a task key or rollout id is enough."""


@dataclass(frozen=True, slots=True)
class Where:
    """`word` is what the view itself knows (one of WORDS); `fits` judges one rollout by everything else."""

    word: str
    fits: Callable[[Rollout], bool]
    exact: bool = False
    """Names one task or rollout."""


def parse(where: str | None) -> Where:
    """Raises EvalError (`filter-unreadable`) for what is neither a word, a key nor comparisons."""
    text = (where or "all").strip()
    if text.lower() in WORDS:
        return Where(text.lower(), _always)
    if not re.search(r"[<>=]", text):
        if _KEY.fullmatch(text):
            return Where("all", lambda r: _names(r.task, text) or _names(r.id, text), exact=True)
        raise _unreadable(text)
    word, tests = "all", []
    for part in _AND.split(text):
        if part.lower() in WORDS:
            word = part.lower()
            continue
        found = _COMPARISON.fullmatch(part)
        if found is None:
            raise _unreadable(text)
        tests.append(_test(*found.groups()))
    return Where(word, lambda r: all(test(r) for test in tests))


def _always(rollout: Rollout) -> bool:
    return True


def _names(key: str, wanted: str) -> bool:
    return key == wanted or (len(wanted) >= _PREFIXED and key.startswith(wanted))


def _test(name: str, sign: str, wanted: str) -> Callable[[Rollout], bool]:
    wanted = wanted.strip("\"'")
    if name in ("task", "id") and sign in ("=", "=="):
        return lambda r: _names(r.task if name == "task" else r.id, wanted)
    number = _number(wanted)

    def test(rollout: Rollout) -> bool:
        value = value_of(rollout, name)
        if value is MISSING:
            return False
        return _holds(value, sign, wanted, number)

    return test


def _holds(value: Any, sign: str, wanted: str, number: float | None) -> bool:
    own = _number(value)
    if own is not None and number is not None:
        return {
            "<": own < number, "<=": own <= number, ">": own > number, ">=": own >= number,
            "=": own == number, "==": own == number, "!=": own != number,
        }[sign]  # fmt: skip
    same = str(value).strip().casefold() == wanted.casefold()
    return same if sign in ("=", "==") else not same if sign == "!=" else False


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.strip().casefold() in ("true", "false"):
        return float(value.strip().casefold() == "true")
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _unreadable(text: str) -> EvalError:
    return EvalError(
        f"where={quote(text, 120)} is no filter",
        fix=f"Give one of {', '.join(WORDS)}, a task or rollout id, or comparisons such as reward<0.5 and lookups=3.",
        code="filter-unreadable",
    )
