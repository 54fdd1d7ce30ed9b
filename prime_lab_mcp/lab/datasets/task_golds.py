"""Finds the reference answers (golds) of an environment's tasks, and the texts with which a completion can state them.

check_environment and test_reward use this module; inspect_dataset recognises formats by the same rules (formats.py).
The module only proposes forms of a gold. Calibration (lab/rewards) scores the forms to find out which one the
environment's reward accepts. If the reward accepts none, the gold counts as not understood.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import Any

from prime_lab_mcp.lab.datasets import answer_syntax, golds
from prime_lab_mcp.lab.datasets.formats import (
    ACCEPTED_SHARE,
    CLASS_FORMATS,
    AnswerContext,
    AnswerFormat,
    has_inline_options,
    recognise_format,
)
from prime_lab_mcp.lab.worker.description import Row

UNSTATABLE: frozenset[AnswerFormat] = frozenset({"code_tests", "instruction_constraints", "procedural"})
"""Formats whose gold checks an answer but is not itself an answer."""
_LETTER = re.compile(r"\(?([A-Ja-j])[).]?")
_PADDED = re.compile(r"0\d+")
_OPTIONS = ("choices", "options", "endings", "candidates")


@dataclass(frozen=True, slots=True)
class TaskGold:
    """The gold of one task. `forms` are texts with which a completion can state the gold, the likeliest first."""

    row: int
    raw: Any
    forms: tuple[str, ...]
    frame: tuple[str, str] = ("", "")
    """What the first half of the forms have around the gold: other fields of the task, such as its unit."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The items of a gold with several items; empty for other golds."""
        return tuple(_parts(self.raw)) if isinstance(self.raw, list | Mapping) else ()

    def form(self, number: int) -> str:
        return self.forms[min(number, len(self.forms) - 1)]


@dataclass(frozen=True, slots=True)
class SampleGolds:
    """The golds of a sample of tasks.

    `place` is the field that holds the golds; `empty` are the rows without a gold.
    """

    place: str
    format: AnswerFormat
    golds: tuple[TaskGold, ...]
    empty: tuple[int, ...]
    tolerance: Decimal = Decimal(0)
    """The relative error of numbers that the prompts allow; 0 if they state none."""
    frame: tuple[str, str] = ("", "")
    """The texts around the golds that name other fields of the tasks, such as `" {info.unit}"`."""
    bare: SampleGolds | None = None
    """The same golds without these texts; None if there are none."""
    template: str = ""
    """The text with names of fields in braces of which the golds are made; empty for golds of one field."""
    fields: tuple[SampleGolds, ...] = ()
    """The values of the fields that the template names."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The distinct answers, the most frequent first, if they are at most 20 classes; otherwise empty."""
        counts = Counter(g.forms[0] for g in self.golds)
        return (
            tuple(label for label, _ in counts.most_common())
            if self.format in CLASS_FORMATS and len(counts) <= 20
            else ()
        )


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, Mapping))
    return ""


def prompt_of(row: Row) -> str:
    """Return the text of a task's prompt without the system prompt."""
    return "\n".join(message_text(m) for m in row.prompt if m.get("role") != "system")


def texts_of_task(row: Row) -> list[str]:
    """Return the prompt of a task, and then its system messages, one text each."""
    return [prompt_of(row), *(message_text(m) for m in row.prompt if m.get("role") == "system")]


def whole_prompt(row: Row) -> str:
    """Return the text of all messages of a task's prompt, the system prompt included."""
    return "\n".join(map(message_text, row.prompt))


def gold_candidates(rows: Sequence[Row]) -> list[SampleGolds]:
    """Return candidates for the golds: the task's `answer`, then fields with usual names of answers."""
    places: dict[str, None] = {}
    for row in rows[:50]:
        for place, raw in _places(row):
            if not golds.is_empty(raw):
                places[place] = None
    candidates = (golds_at(rows, place) for place in list(places)[:6])
    return [g for g in candidates if g is not None]


def classes_without_name(rows: Sequence[Row], golds: SampleGolds) -> tuple[tuple[str, str], ...]:
    """Return the prompt and the gold of each task whose golds are classes in a field without a usual name of an answer.

    Empty otherwise. Only a reward shows that such a field holds the golds, so checks without a reward leave it out.
    """
    if golds.format not in CLASS_FORMATS or any(g.place == golds.place for g in gold_candidates(rows)):
        return ()
    classes = {gold.row: gold.forms[0] for gold in golds.golds if gold.forms}
    return tuple((prompt_of(row), classes[row.index]) for row in rows if row.index in classes and not options_of(row))


_METADATA = frozenset(
    {"answer", "prompt", "question", "idx", "index", "id", "name", "task", "key", "info", "example_id", "system_prompt"}
)
_MOST_OTHERS, _MOST_PARTS = 4, 12
_MOST_FORMS, _FEWEST_LEFT_OUT = 3, 2
"""Of a list that a task may ask to select: the most forms of its codes, and the fewest of these forms that the prompt
has besides (our choice)."""


def other_candidates(rows: Sequence[Row], source: str = "") -> list[SampleGolds]:
    """Return candidates for the golds in short fields without a usual name of an answer, such as `word` or `ranking`.

    Most of these fields are no golds. A field is one if the reward pays for the value of the same task but not for the
    values of other tasks. Fields that the environment's source code reads come first.
    """
    known_places = {g.place for g in gold_candidates(rows)}
    places: dict[str, None] = {}
    for row in rows[:50]:
        for origin, fields in (("", row.fields), ("info.", _fields(row.info))):
            for name, value in fields.items() if isinstance(fields, Mapping) else ():
                if name not in _METADATA and origin + name not in known_places and _may_be_gold(value, row):
                    places[origin + name] = None
    listed = sorted(places, key=lambda place: not reads_field(source, place))
    candidates = (golds_at(rows, place) for place in listed)
    varied = (g for g in candidates if g is not None and len({gold.forms[0] for gold in g.golds}) > 1)
    prompts = {row.index: prompt_of(row) for row in rows}
    varied = (g for g in varied if not _is_demanded(g, prompts))
    return list(islice(varied, _MOST_OTHERS))


_DEMANDED = (
    r"(?i)\b(?:words?|phrases?|terms?|names?|keywords?|letters?|includ\w+|contain\w*|mention\w*|us(?:e|es|ing)|avoid\w*|"
    r"without|start\w* with|end\w* with)\s+(?:(?:the|a|an|exact)\s+)*(?:(?:word|phrase|term|name|keyword|letter)\s+)?"
)
"""What stands before a quoted text that a reply must contain or avoid."""
_MOSTLY = 0.8
"""Share of the prompts that must demand the text."""


def _is_demanded(found: SampleGolds, prompts: Mapping[int, str]) -> bool:
    """Return whether the values are quoted texts that replies must contain or avoid: demands, and no answers."""
    texts = [(gold.raw, prompts[gold.row]) for gold in found.golds if isinstance(gold.raw, str) and gold.raw]
    demanded = sum(
        re.search(rf"""{_DEMANDED}["'“‘`*]+{re.escape(text)}["'”’`*]""", prompt) is not None for text, prompt in texts
    )
    return bool(texts) and demanded >= _MOSTLY * len(found.golds)


def reads_field(source: str, place: str) -> bool:
    """Return whether the source code reads this field of a task, as `data.FIELD` or `info["FIELD"]`."""
    name = re.escape(place.removeprefix("info."))
    return re.search(rf"""\bdata\.{name}\b|\[["']{name}["']\]|\.get\(["']{name}["']""", source) is not None


def _may_be_gold(value: Any, row: Row) -> bool:
    """Return whether a value may be an answer.

    It must be short, a list must not occur in the prompt in its order unless the prompt has others of its form (then
    the list may be a selection), and an object must hold plain values only.
    """
    if isinstance(value, Mapping):
        plain = all(v is None or isinstance(v, str | int | float) for v in value.values())
        return plain and 1 <= len(value) <= _MOST_PARTS and len(str(value)) <= 1_000
    if isinstance(value, list):
        parts = [str(item) for item in value if isinstance(item, str | int | float) and not isinstance(item, bool)]
        fits = 1 <= len(parts) == len(value) <= _MOST_PARTS
        return fits and (not _stated_in_order(parts, prompt_of(row)) or _is_selection(parts, prompt_of(row)))
    return isinstance(value, str | int | float) and not isinstance(value, bool) and 0 < len(str(value)) <= 200


def _is_selection(parts: Sequence[str], prompt: str) -> bool:
    """Return whether a prompt has more numbers or codes of the form of these, such as `P-12` and `P-70` for `P-12`."""
    forms = {re.sub(r"\d", r"\\d", re.escape(part)) for part in parts}
    if len(forms) > _MOST_FORMS or not all("\\d" in form for form in forms):
        return False
    alike = {found for form in forms for found in re.findall(rf"(?<![\w-]){form}(?![\w-])", prompt)}
    return len(alike - set(parts)) >= _FEWEST_LEFT_OUT


def _stated_in_order(parts: Sequence[str], prompt: str) -> bool:
    at = 0
    for part in parts:
        match = re.compile(rf"(?<!\w){re.escape(part)}(?!\w)", re.I).search(prompt, at)
        if match is None:
            return False
        at = match.end()
    return True


def task_fields(row: Row) -> Mapping[str, Any]:
    """Return the fields of a task, with its `info` and its `answer`, objects that are stored as JSON text decoded."""
    fields = {"answer": row.answer, "info": row.info, **row.fields}
    return {name: _fields(value) or value for name, value in fields.items() if value is not None}


def _places(row: Row) -> Iterator[tuple[str, Any]]:
    yield "answer", row.answer
    for source, fields in (("", row.fields), ("info.", _fields(row.info))):
        if isinstance(fields, Mapping):
            yield from ((source + name, fields[name]) for name in golds.GOLD_NAMES if fields.get(name) is not None)


def _fields(info: Any) -> Any:
    """Return the fields of a task's `info`, which may be the text of a JSON object."""
    if isinstance(info, str) and info.lstrip()[:1] == "{" and len(info) <= _LONGEST_TEXT:
        try:
            return json.loads(info)
        except (ValueError, RecursionError):
            return None
    return info


def _at(row: Row, place: str) -> Any:
    if place == "answer" and row.answer is not None:
        return row.answer
    fields: Any = _fields(row.info) if place.startswith("info.") else row.fields
    return fields.get(place.removeprefix("info.")) if isinstance(fields, Mapping) else None


_LONGEST_TEXT = 20_000


def listed_text(raw: Any) -> list[str] | None:
    """Return the items of a gold that is a list of texts written as Python or JSON text; None for any other gold."""
    if not isinstance(raw, str) or len(raw) > _LONGEST_TEXT or raw.strip()[:1] != "[" or raw.strip()[-1:] != "]":
        return None
    try:
        items = ast.literal_eval(raw.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    texts = isinstance(items, list) and bool(items) and all(isinstance(item, str) and item.strip() for item in items)
    return items if texts else None


def golds_at(rows: Sequence[Row], place: str) -> SampleGolds | None:
    """Return the golds of the tasks in the field `place`; None if their format is not recognised."""
    full = [(row, _at(row, place)) for row in rows]
    empty = tuple(row.index for row, raw in full if golds.is_empty(raw))
    full = [(row, raw) for row, raw in full if not golds.is_empty(raw)]
    if full and sum(listed_text(raw) is not None for _, raw in full[:200]) >= ACCEPTED_SHARE * len(full[:200]):
        full = [(row, listed_text(raw) or raw) for row, raw in full]
    offered = tuple(sorted({len(options_of(row)) for row, _ in full[:200]} - {0}))
    inline = has_inline_options([prompt_of(row) for row, _ in full[:200]])
    recognised = recognise_format([(row.index, raw) for row, raw in full], AnswerContext(place, None, offered, inline))
    if recognised is None:
        return None
    if recognised.format == "boxed":
        # The content of the box is the answer. Solutions without a box, such as proofs, have no answer.
        unboxed = [row.index for row, raw in full if not answer_syntax.is_boxed(raw)]
        full = [(row, raw) for row, raw in full if row.index not in unboxed]
        empty = tuple(sorted((*empty, *unboxed)))
    base = recognised.index_base or 0
    task_golds = tuple(TaskGold(row.index, raw, gold_forms(raw, recognised.format, row, base)) for row, raw in full)
    return SampleGolds(place, recognised.format, task_golds, empty, stated_tolerance(rows))


def joined_golds(found: SampleGolds) -> SampleGolds | None:
    """Return the same golds with the items of their lists joined by commas or lines; None if they are no such lists.

    A list of numbers is stored as JSON, and many prompts ask for the numbers alone.
    """
    lists = [gold.raw for gold in found.golds if isinstance(gold.raw, list)]
    if (
        found.format != "json"
        or len(lists) < len(found.golds)
        or any(isinstance(i, list | dict) for r in lists for i in r)
    ):
        return None
    joined = tuple(replace(gold, forms=tuple(_several(gold.raw))) for gold in found.golds)
    return replace(found, format="multi_answer", golds=joined)


_TOLERANCE = re.compile(
    r"(?:\b(?:within|tolerance(?: of)?|accurate to(?: within)?|(?:error|deviation)(?: of)?(?: at most| below| under)?|"
    r"off by(?: at most| up to)?)|±|\+/-)\s*(?:about |roughly |±|\+/-)?\s*"
    r"(\d{1,2}(?:\.\d+)?)\s?(?:%|percent\b|per cent\b)"
    r"|\b(\d{1,2}(?:\.\d+)?)\s?(?:%|percent|per cent) (?:tolerance|error|deviation)\b",
    re.I,
)
_ESTIMATES = re.compile(r"\b(?:estimate|approximat\w*|roughly|order of magnitude|ballpark)\b", re.I)
_ESTIMATED = Decimal("0.1")
"""Relative error that a prompt allows if it asks for an estimate and names no error (our choice)."""
_STATED_SHARE = 0.8
"""Share of the prompts that must allow an error."""


def stated_tolerance(rows: Sequence[Row]) -> Decimal:
    """Return the smallest relative error that nearly all prompts allow, system messages included; 0 if they do not."""
    stated = []
    for text in (whole_prompt(row) for row in rows[:50]):
        named = _TOLERANCE.search(text)
        if named is not None:
            stated.append(Decimal(named[1] or named[2]) / 100)
        elif _ESTIMATES.search(text):
            stated.append(_ESTIMATED)
    return min(stated) if stated and len(stated) >= _STATED_SHARE * len(rows[:50]) else Decimal(0)


def options_of(row: Row) -> list[str]:
    """Return the answer options of a task, from its fields or its prompt."""
    for fields in (row.fields, row.info):
        if isinstance(fields, Mapping):
            for name in _OPTIONS:
                options = fields.get(name)
                options = options.get("text") if isinstance(options, Mapping) else options
                if isinstance(options, list) and 2 <= len(options) <= 26:
                    return [str(f) for f in options]
    lines = re.findall(r"(?m)^\s*\(?([A-J])[).:]\s*(.+)$", prompt_of(row))
    return [text.strip() for _, text in lines] if len(lines) >= 2 and lines[0][0] == "A" else []


def gold_forms(raw: Any, kind: AnswerFormat, row: Row, base: int = 0) -> tuple[str, ...]:
    """Return the texts with which a completion can state a gold, the likeliest first.

    `base` is the number of the first option in the format `choice_index`.
    """
    forms = [f for f in _forms(raw, kind, row, base) if f.strip()]
    if (
        kind != "multi_answer"
    ):  # Here each form joins the items differently, so their number must be equal for all tasks.
        forms = list(dict.fromkeys(forms))
    return tuple(forms) or (str(raw),)


def _forms(raw: Any, kind: AnswerFormat, row: Row, base: int) -> Iterator[str]:
    text = golds.gold_text(raw).strip()
    if kind in ("gsm8k_hash", "numeric"):
        if _PADDED.fullmatch(text):
            yield text  # A code such as 0985 is compared as text. A reward that compares numbers pays both spellings.
        yield from _numbers(raw, kind)
        yield (golds.closing_number(text) if kind == "gsm8k_hash" else golds.worked_answer(text)) or text
    elif kind == "boxed":
        yield golds.boxed_content(text) or text
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


def _numbers(raw: Any, kind: AnswerFormat) -> Iterator[str]:
    number = golds.gold_number(raw, kind)
    if number is not None and number.adjusted() < 30:
        yield golds.canonical_number(number)


def _several(raw: Any) -> Iterator[str]:
    parts = _parts(raw)
    if parts:
        # All items come first: if naming one item pays as much as naming all, test_reward reports that.
        yield ", ".join(parts)
        yield "\n".join(parts)
        yield json.dumps(parts, ensure_ascii=False)
        yield parts[0]


def _parts(raw: Any) -> list[str]:
    if isinstance(raw, Mapping):
        raw = next((raw[k] for k in ("text", "spans", "aliases") if isinstance(raw.get(k), list)), list(raw.values()))
    return [golds.gold_text(r) for r in raw] if isinstance(raw, list) else [golds.gold_text(raw)]
