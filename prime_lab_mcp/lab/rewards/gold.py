"""Gold answers as they stand in tasks, and the ways in which a completion may say one.

Syntax only proposes. Which of the ways the environment's reward takes is found out by scoring them (calibrate.py).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.datasets import golds as values
from prime_lab_mcp.lab.datasets.formats import CLASSES, Context, Format, has_inline_options, recognise
from prime_lab_mcp.lab.worker.cases import Row

UNSAYABLE: frozenset[Format] = frozenset({"code_tests", "instruction_constraints", "procedural"})
"""Formats whose gold is a test of answers, not an answer."""
_LETTER = re.compile(r"\(?([A-Ja-j])[).]?")
_NAMES = (
    "answer", "gold", "target", "expected", "expected_answer", "ground_truth", "correct", "correct_answer", "label",
    "final_answer", "answers", "reference", "solution", "canonical_solution", "reference_solution", "result", "output",
)  # fmt: skip
_OPTIONS = ("choices", "options", "endings", "candidates")


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold of one task: `forms` are ways to say it, the likeliest first."""

    row: int
    raw: Any
    forms: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The items of a gold that holds several."""
        return tuple(_parts(self.raw)) if isinstance(self.raw, list | Mapping) else ()

    def form(self, number: int) -> str:
        return self.forms[min(number, len(self.forms) - 1)]


@dataclass(frozen=True, slots=True)
class Golds:
    """The golds of a sample. `place` is the field they stand in; `empty` are the rows without one."""

    place: str
    format: Format
    golds: tuple[Gold, ...]
    empty: tuple[int, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The distinct answers, where they are a small closed set."""
        found = Counter(g.forms[0] for g in self.golds)
        return tuple(label for label, _ in found.most_common()) if self.format in CLASSES and len(found) <= 20 else ()


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, Mapping))
    return ""


def prompt_of(row: Row) -> str:
    """What the user asks in a task, without the system prompt."""
    return "\n".join(text_of(m) for m in row.prompt if m.get("role") != "system")


def candidates(rows: Sequence[Row]) -> list[Golds]:
    """Where the golds may stand: the field the environment calls its answer, then others whose name says so."""
    places: dict[str, None] = {}
    for row in rows[:50]:
        for place, raw in _places(row):
            if not values.is_empty(raw):
                places[place] = None
    found = (_collect(rows, place) for place in list(places)[:6])
    return [g for g in found if g is not None]


def _places(row: Row) -> Iterator[tuple[str, Any]]:
    yield "answer", row.answer
    for source, fields in (("", row.fields), ("info.", row.info)):
        if isinstance(fields, Mapping):
            yield from ((source + name, fields[name]) for name in _NAMES if fields.get(name) is not None)


def _at(row: Row, place: str) -> Any:
    if place == "answer" and row.answer is not None:
        return row.answer
    fields: Any = row.info if place.startswith("info.") else row.fields
    return fields.get(place.removeprefix("info.")) if isinstance(fields, Mapping) else None


def _collect(rows: Sequence[Row], place: str) -> Golds | None:
    full = [(row, _at(row, place)) for row in rows]
    empty = tuple(row.index for row, raw in full if values.is_empty(raw))
    full = [(row, raw) for row, raw in full if not values.is_empty(raw)]
    offered = tuple(sorted({len(options_of(row)) for row, _ in full[:200]} - {0}))
    inline = has_inline_options([prompt_of(row) for row, _ in full[:200]])
    found = recognise([(row.index, raw) for row, raw in full], Context(place, None, offered, inline))
    if found is None:
        return None
    base = found.index_base or 0
    golds = tuple(Gold(row.index, raw, forms(raw, found.format, row, base)) for row, raw in full)
    return Golds(place, found.format, golds, empty)


def options_of(row: Row) -> list[str]:
    """The answer options of a task, from its fields or its prompt."""
    for fields in (row.fields, row.info):
        if isinstance(fields, Mapping):
            for name in _OPTIONS:
                found = fields.get(name)
                found = found.get("text") if isinstance(found, Mapping) else found
                if isinstance(found, list) and 2 <= len(found) <= 26:
                    return [str(f) for f in found]
    lines = re.findall(r"(?m)^\s*\(?([A-J])[).:]\s*(.+)$", prompt_of(row))
    return [text.strip() for _, text in lines] if len(lines) >= 2 and lines[0][0] == "A" else []


def forms(raw: Any, kind: Format, row: Row, base: int = 0) -> tuple[str, ...]:
    """Ways to say a gold, the likeliest first."""
    found = [f for f in _forms(raw, kind, row, base) if f.strip()]
    if kind != "multi_answer":  # there a form is a way to join, the same number for lists of one and of several
        found = list(dict.fromkeys(found))
    return tuple(found) or (str(raw),)


def _forms(raw: Any, kind: Format, row: Row, base: int) -> Iterator[str]:
    text = values.as_text(raw).strip()
    if kind in ("gsm8k_hash", "numeric"):
        yield from _numbers(raw, kind)
        yield values.after_hash(text) or text
    elif kind == "boxed":
        yield values.boxed(text) or text
    elif kind == "boolean" and isinstance(raw, bool):
        yield from ("yes", "true", "True") if raw else ("no", "false", "False")
    elif kind == "choice_letter" and (letter := _LETTER.fullmatch(text)):
        yield letter[1]
        yield from options_of(row)[ord(letter[1].upper()) - ord("A") :][:1]
    elif kind == "choice_index" and text.isdigit():
        at = int(text) - base
        yield from (chr(ord("A") + at),) if 0 <= at < 26 else ()
        yield text
        yield from options_of(row)[at:][:1] if at >= 0 else ()
    elif kind == "multi_answer":
        yield from _several(raw)
    yield text


def _numbers(raw: Any, kind: Format) -> Iterator[str]:
    number = values.gold_number(raw, kind)
    if number is not None and number.adjusted() < 30:
        yield values.canonical(number)


def _several(raw: Any) -> Iterator[str]:
    parts = _parts(raw)
    if parts:
        # All of them first: where naming one pays as much as naming all, that is a flaw to be shown.
        yield ", ".join(parts)
        yield "\n".join(parts)
        yield json.dumps(parts, ensure_ascii=False)
        yield parts[0]


def _parts(raw: Any) -> list[str]:
    if isinstance(raw, Mapping):
        raw = next((raw[k] for k in ("text", "spans", "aliases") if isinstance(raw.get(k), list)), list(raw.values()))
    return [values.as_text(r) for r in raw] if isinstance(raw, list) else [values.as_text(raw)]
