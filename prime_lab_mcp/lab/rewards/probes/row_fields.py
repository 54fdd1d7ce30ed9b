"""Writes golds together with other fields of their task, such as a number with the unit that the row stores beside it.

A rendering of the caller may name such fields in braces (`GOLD {info.unit}`). Without that, units are added if the
prompts ask for one and the tasks have a field of that name: calibration then takes whichever spelling is paid more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold, task_fields, whole_prompt
from prime_lab_mcp.lab.rewards.probes.answer_formats import GOLD_MARK, AnswerWrapper, wrapper_from_template
from prime_lab_mcp.lab.worker.description import Row

_FIELD = re.compile(r"(?<![\\\w}])\{([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\}")
"""A field of the task in braces. Braces after a word or another brace are LaTeX, such as `\\frac{a}{b}`."""
_LONGEST = 200
"""Longest value of a field that belongs to a rendering, in characters."""
_MOST_NAMED = 20
_UNIT_NAMES = ("unit", "units", "answer_unit", "unit_of_measure")
_UNIT = re.compile(r"[A-Za-z\u00b5\u00b0%]{1,12}(?:/[A-Za-z]{1,6})?")
_ASKS_UNIT = re.compile(r"(?i)\b(?:with|and|include|including|add|give|state|write)\b[^.\n]{0,40}\bunits?\b")
_NO_UNIT = re.compile(r"(?i)\b(?:without|no|not|never|omit|leave out)\b[^.\n]{0,30}\bunits?\b")
_MOSTLY = 0.8
"""Share of the prompts that must ask for a unit."""


@dataclass(frozen=True, slots=True)
class GoldRendering:
    """A form of the answer that a caller states.

    `wrapper` is what is the same for every task. `before` and `after` are the texts around the gold that name fields of
    the task, such as `" {info.unit}"`; empty if none is named.
    """

    wrapper: AnswerWrapper
    before: str = ""
    after: str = ""

    @property
    def fields(self) -> list[str]:
        return _FIELD.findall(self.before + self.after)


def rendering_from_template(template: str) -> GoldRendering:
    """Return the rendering that a template describes, with GOLD in the place of the answer.

    Raises BadInput unless the template contains GOLD exactly once.
    """
    at = template.find(GOLD_MARK)
    named = [found.span() for found in _FIELD.finditer(template) if found[1] != GOLD_MARK]
    if at < 0 or not named or template.count(GOLD_MARK) != 1:
        return GoldRendering(wrapper_from_template(template))
    end_of_gold = at + len(GOLD_MARK)
    start, end = min(at, named[0][0]), max(end_of_gold, named[-1][1])
    wrapper = wrapper_from_template(template[:start] + GOLD_MARK + template[end:])
    return GoldRendering(wrapper, template[start:at], template[end_of_gold:end])


def require_fields(rendering: GoldRendering, rows: Sequence[Row], following: Sequence[Next] = ()) -> None:
    """Raise BadInput if a task lacks a field that the rendering names, or if its value is no short text or number.

    `following` are the calls that the error recommends.
    """
    for name in rendering.fields:
        lacking = [row.index for row in rows if _value(row, name) is None]
        if not lacking:
            continue
        known = ", ".join(known_fields(rows)[:_MOST_NAMED]) or "none"
        where = "no task has" if len(lacking) == len(rows) else f"{count(len(lacking), 'task')} without"
        raise BadInput(
            f"the rendering names the field {quote(name, 60)}, and {where} a short text or number there; nothing was "
            "recorded",
            fix=f"Name one of the fields of the tasks ({known}), as in {GOLD_MARK} {{FIELD}}.",
            code="bad-argument",
            next=tuple(following),
        )


def known_fields(rows: Sequence[Row]) -> list[str]:
    """Return the fields that a rendering can name: those with a short text or number in the first task."""
    return list(dict.fromkeys(name for row in rows[:1] for name, value in _named(row) if _text(value) is not None))


def framed_golds(golds: SampleGolds, rows: Sequence[Row], before: str, after: str) -> SampleGolds:
    """Return the golds with the texts around them, in which names of fields in braces become the task's values.

    The spellings without these texts stay, after the others, because they are no wrong answers either.
    """
    by_index = {row.index: row for row in rows}
    framed = tuple(_framed(gold, by_index[gold.row], before, after) for gold in golds.golds)
    return replace(golds, golds=framed, frame=(before, after), bare=golds)


def _framed(gold: TaskGold, row: Row, before: str, after: str) -> TaskGold:
    lead, tail = _filled(before, row), _filled(after, row)
    return replace(gold, forms=(*(f"{lead}{form}{tail}" for form in gold.forms), *gold.forms), frame=(lead, tail))


def _filled(template: str, row: Row) -> str:
    return _FIELD.sub(lambda found: _value(row, found[1]) or "", template)


def with_units(golds: SampleGolds, rows: Sequence[Row]) -> SampleGolds | None:
    """Return numbers with the units that the tasks store in a field, if the prompts ask for a unit; otherwise None."""
    if golds.format not in ("numeric", "gsm8k_hash"):
        return None
    few = rows[:20]
    texts = [whole_prompt(row) for row in few]
    asking = sum(_ASKS_UNIT.search(text) is not None and _NO_UNIT.search(text) is None for text in texts)
    if not texts or asking < _MOSTLY * len(texts):
        return None
    by_index = {row.index: row for row in rows}
    for place in dict.fromkeys(name for name, _ in _named(rows[0])):
        if place.rpartition(".")[2].lower() not in _UNIT_NAMES:
            continue
        if all(_UNIT.fullmatch(_value(by_index[gold.row], place) or "") for gold in golds.golds):
            return framed_golds(golds, rows, "", f" {{{place}}}")
    return None


def _value(row: Row, name: str) -> str | None:
    """Return the text of a field of a task, named as in `known_fields`; None without a short text or number there."""
    value: Any = task_fields(row)
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return _text(value)


def _named(row: Row) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a task and, as `info.unit`, those of objects among them."""
    for name, value in task_fields(row).items():
        yield name, value
        for inner, held in value.items() if isinstance(value, Mapping) else ():
            yield f"{name}.{inner}", held


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    return text if 0 < len(text) <= _LONGEST else None
