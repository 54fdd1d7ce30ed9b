"""Function calls: read from JSON, and compared with the calls that a gold asks for or allows.

A gold is a list of calls. Beside `name` and `arguments` a call of it may hold `accept`, further right values by
argument, and `optional`, arguments that may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tool_call_template.values import same

Call = Mapping[str, Any]
MOST = 50
"""Calls of one reply."""
_LOOSE = re.compile(r"[ ,./\-_*^]")


def calls_of(found: Any) -> list[Call] | None:
    """The calls that a JSON value is: one, or a list of them. None where any of it is no call.

    Arguments must be an object: a JSON text of one (arguments encoded twice) is no call. Other keys, such as `id`, do
    not matter.
    """
    calls = found if isinstance(found, list) else [found]
    for call in calls:
        if not (isinstance(call, dict) and isinstance(call.get("name"), str) and call["name"].strip()):
            return None
        if not isinstance(call.get("arguments"), dict):
            return None
    return calls if 0 < len(calls) <= MOST else None


def fulfil(calls: Sequence[Call], golds: Sequence[Call]) -> bool:
    """Each gold is called once and nothing else is; the order does not matter."""
    if len(calls) != len(golds):
        return False
    fitting = [[n for n, call in enumerate(calls) if matches(call, gold)] for gold in golds]
    taken: dict[int, int] = {}
    return all(_place(gold, fitting, taken, set()) for gold in range(len(golds)))


def _place(gold: int, fitting: Sequence[Sequence[int]], taken: dict[int, int], tried: set[int]) -> bool:
    """Find a call for a gold, moving earlier golds to other calls where they fit too (augmenting paths)."""
    for call in fitting[gold]:
        if call not in tried:
            tried.add(call)
            if call not in taken or _place(taken[call], fitting, taken, tried):
                taken[call] = gold
                return True
    return False


def matches(call: Call, gold: Call) -> bool:
    """The same function, with every argument that is asked for, none that is not, and right values."""
    if call["name"].strip() != gold["name"].strip():
        return False
    given, wanted = call["arguments"], gold["arguments"]
    accept, optional = gold.get("accept") or {}, set(gold.get("optional") or ())
    if not set(wanted) - optional <= set(given) <= set(wanted) | set(accept):
        return False
    loose = "accept" in gold
    return all(
        any(
            _right(value, right, loose)
            for right in [*([wanted[name]] if name in wanted else []), *accept.get(name, ())]
        )
        for name, value in given.items()
    )


def _right(given: Any, gold: Any, loose: bool) -> bool:
    if loose and isinstance(given, str) and isinstance(gold, str):
        return _plain(given) == _plain(gold)
    if isinstance(given, str) and isinstance(gold, str):
        return same(given.strip(), gold.strip())
    return same(given, gold)


def _plain(text: str) -> str:
    """How the Berkeley leaderboard, which the lists of accepted values come from, compares texts."""
    return _LOOSE.sub("", text).lower().replace("'", '"')
