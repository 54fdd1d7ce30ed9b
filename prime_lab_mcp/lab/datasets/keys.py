"""When two rows are the same task, and when two golds are the same answer.

One definition for all who compare rows: the findings over a sample, and the pass over every row of a split.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.formats import NUMERIC, accepts
from prime_lab_mcp.lab.datasets.plain import PlainRow

OPEN_ENDED: frozenset[str] = frozenset({"free_text", "chat_messages", "code_tests", "instruction_constraints"})
"""Forms in which two different golds can both be right, so that no two rows contradict each other."""


def task_key(row: PlainRow) -> bytes:
    """Digest of the normalised prompt and, in any order, the options: rows with it in common ask the same."""
    text = golds.normalised(row.prompt)
    if row.options:
        text = "\x1f".join((text, *sorted(map(golds.normalised, row.options))))
    return _digest(text)


def gold_key(row: PlainRow, format: str, said: str | None = None) -> bytes:
    """Digest of what the gold says in its form. With options it is the option's text: a letter means nothing alone.

    `said`: its essence, where that is known already.
    """
    if row.gold_option is not None and 0 <= row.gold_option < len(row.options):
        return _digest(golds.normalised(row.options[row.gold_option]))
    if format == "multi_answer":
        return _digest("\x1f".join(sorted(golds.normalised(a) for a in _alternatives(row.gold))))
    return _digest(golds.normalised(essence(row.gold, format) if said is None else said))


def essence(value: Any, format: str) -> str:
    """The part of a gold that is the answer: the number after ####, the content of the box, else all of it."""
    if format in NUMERIC:
        return _number(value, format)[0]
    text = golds.as_text(value) if value is not None else ""
    return (golds.boxed(text) or text) if format == "boxed" else text


def judged(value: Any, format: str) -> tuple[str, bool]:
    """Essence of a gold, and whether it has the form."""
    return _number(value, format) if format in NUMERIC else (essence(value, format), accepts(format, value))


def _number(value: Any, format: str) -> tuple[str, bool]:
    found = golds.gold_number(value, format)
    if found is not None:
        return golds.canonical(found), True
    return golds.as_text(value) if value is not None else "", False


def _alternatives(value: Any) -> Sequence[str]:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    if isinstance(value, Mapping):
        value = next((value[k] for k in ("text", "spans", "aliases") if isinstance(value.get(k), list)), [str(value)])
    return [golds.as_text(v) for v in value] if isinstance(value, list | tuple) else [golds.as_text(value)]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]
