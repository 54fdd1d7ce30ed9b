"""Finds a field of structured prompts whose value decides the answer, such as the folder in which a mail was filed.

Prompts that are made of records often have lines `Name: value`. Some fields are written by the process that also made
the labels (a queue, a folder, a status), so that the model copies the field instead of reading the text.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_FIELD = re.compile(r"""(?m)^[ \t>*-]*["']?([A-Za-z][\w -]{0,39}?)["']?[ \t]*:[ \t]*(\S.{0,199})$""")
_FEWEST_ROWS = 20
_FEWEST_FIELDS = 3
"""Smallest number of fields of a record. With fewer fields, a field may be the text to classify."""
_PRESENT = 0.9
"""Share of the prompts that must have the field."""
_DECIDED = 0.97
"""Share of the rows whose answer a value of the field must decide."""
_SUPPORT = 3
"""Smallest number of rows with a value. A rarer value decides an answer by coincidence."""


@dataclass(frozen=True, slots=True)
class LeakingField:
    """A field, the share of the rows whose answer it decides, and for each answer one value that only it has."""

    name: str
    share: float
    examples: Mapping[str, str]


def fields_of(prompt: str) -> dict[str, str]:
    """Return the fields of a prompt by name; the first one if a name occurs twice."""
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(prompt):
        fields.setdefault(name.strip(), value.strip(" \"',"))
    return fields


def find_leaking_field(rows: Sequence[tuple[str, str]]) -> LeakingField | None:
    """Return the field that decides the most answers of (prompt, answer) pairs; None if no field decides nearly all.

    A value decides an answer if all rows with this value have the same answer. A list with commas has several values.
    """
    answers = Counter(answer for _, answer in rows)
    if len(rows) < _FEWEST_ROWS or len(answers) < 2:
        return None
    records = [(fields_of(prompt), answer) for prompt, answer in rows]
    names = Counter(name for fields, _ in records for name in fields)
    usual = [name for name, times in names.items() if times >= _PRESENT * len(rows)]
    if len(usual) < _FEWEST_FIELDS:
        return None
    found = [field for name in usual if (field := _judged(name, records)) is not None]
    return max(found, key=lambda field: field.share, default=None)


def _judged(name: str, records: Iterable[tuple[Mapping[str, str], str]]) -> LeakingField | None:
    """Return a field if its values decide nearly all answers."""
    own = [(_values(fields.get(name, "")), answer) for fields, answer in records]
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for values, answer in own:
        for value in values:
            seen[value][answer] += 1
    pure = {value: next(iter(times)) for value, times in seen.items() if len(times) == 1 and times.total() >= _SUPPORT}
    share = sum(any(value in pure for value in values) for values, _ in own) / len(own)
    if share < _DECIDED:
        return None
    examples: dict[str, str] = {}
    for value in sorted(pure, key=lambda value: -seen[value].total()):
        examples.setdefault(pure[value], value)
    return LeakingField(name, share, examples) if len(examples) == len({answer for _, answer in own}) else None


def _values(text: str) -> frozenset[str]:
    return frozenset(value.strip().casefold() for value in re.split(r"[,;|]", text) if value.strip())
