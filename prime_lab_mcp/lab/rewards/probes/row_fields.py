"""Writes golds together with other fields of their task, such as a number with the unit that the row stores beside it.

A rendering of the caller may name such fields in braces (`GOLD {info.unit}`). Without that, units are added if the
prompts ask for one and the tasks have a field of that name: calibration then takes whichever spelling is paid more.
A rendering without GOLD names the fields of which the whole right reply is made (`{info.city}, {info.day}`), and
replies that tasks state are split into what all of them share and what differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.golds import gold_text, number_in
from prime_lab_mcp.lab.datasets.task_golds import (
    SampleGolds,
    TaskGold,
    gold_candidates,
    golds_at,
    task_fields,
    whole_prompt,
)
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE, GOLD_MARK, AnswerWrapper, wrapper_from_template
from prime_lab_mcp.lab.worker.description import Row

_FIELD = re.compile(r"(?<![\\\w}])\{([A-Za-z_]\w*(?:\.\w+)?)\}")
"""A field of the task in braces, such as `info.unit`, or a part of a field by its number. Braces after a word or
another brace are LaTeX, such as `\\frac{a}{b}`."""
_PIECES = re.compile(rf"(</?[\w-]+>)|\n|\.{{3}}|\u2026|{GOLD_MARK}")
"""What divides the text of a form: tags, ends of lines, dots in the place of reasoning, and the answer."""
_LONGEST = 200
"""Longest value of a field that belongs to a rendering, in characters."""
_MOST_NAMED = 20
_MOST_PARTS = 6
"""Largest number of parts of an answer that are named to a caller."""
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
    composed: str = ""
    """The text from the first named field to the last one, if no GOLD is named: the fields make the whole answer."""

    @property
    def fields(self) -> list[str]:
        return _FIELD.findall(self.before + self.composed + self.after)

    @property
    def template(self) -> str:
        """The form as the caller would write it, with GOLD or the named fields in braces."""
        return self.wrapper.wrap(self.composed or f"{self.before}{GOLD_MARK}{self.after}")

    def is_asked_for(self, rows: Sequence[Row]) -> bool:
        """Whether the prompts of the first tasks show all that the form has besides the answer.

        What stands between fields and tags must be in the prompt as it is, such as `Dose:`; of a pair of tags one is
        enough. A form of fields alone has nothing that a prompt could show.
        """
        pieces = [piece for text in _FIELD.split(self.template)[::2] for piece in _PIECES.split(text) if piece]
        shown = {" ".join(piece.replace("</", "<").split()).casefold() for piece in pieces}
        shown = {piece for piece in shown if re.search(r"\w|#", piece) and piece != GOLD_MARK.casefold()}
        texts = [" ".join(whole_prompt(row).split()).casefold() for row in rows[:20]]
        return bool(shown and texts) and all(piece in text for piece in shown for text in texts)


def rendering_from_template(template: str) -> GoldRendering:
    """Return the rendering that a template describes, with GOLD in the place of the answer.

    Without GOLD, the fields that the template names make the answer. Raises BadInput if the template contains GOLD more
    than once, or neither GOLD nor a field.
    """
    at = template.find(GOLD_MARK)
    named = [found.span() for found in _FIELD.finditer(template) if found[1] != GOLD_MARK]
    if at < 0 and named:
        start, end = named[0][0], named[-1][1]
        wrapper = wrapper_from_template(f"{template[:start]}{GOLD_MARK}{template[end:]}")
        return GoldRendering(wrapper, composed=template[start:end])
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


def composed_golds(rows: Sequence[Row], template: str) -> SampleGolds:
    """Return golds that are made of fields of their task, as a rendering without GOLD names them.

    A template of one field alone stands for the values of that field, like GOLD for the answer.
    """
    places = list(dict.fromkeys(_FIELD.findall(template)))
    values = {row.index: {place: _value(row, place) or "" for place in places} for row in rows}
    known = golds_at(rows, places[0]) if template == f"{{{places[0]}}}" else None
    return known if known is not None else _composed(template, values)


def _composed(template: str, values: Mapping[int, Mapping[str, str]]) -> SampleGolds:
    """Return golds made of the values of each task, which `values` maps from the names that the template has."""
    places = list(dict.fromkeys(name for of_task in values.values() for name in of_task))
    fields = tuple(_field_golds(place, {row: of_task[place] for row, of_task in values.items()}) for place in places)
    texts = {row: filled(template, of_task) for row, of_task in values.items()}
    if len(places) == 1 and template == f"{{{places[0]}}}":
        return fields[0]
    golds = tuple(TaskGold(row, text, (text,)) for row, text in texts.items())
    return SampleGolds(", ".join(places), "short_text", golds, (), template=template, fields=fields)


def _field_golds(place: str, values: Mapping[int, str]) -> SampleGolds:
    numbers = all(number_in(text) is not None for text in values.values())
    golds = tuple(TaskGold(row, text, (text,)) for row, text in values.items())
    return SampleGolds(place, "numeric" if numbers else "short_text", golds, ())


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with values in the place of the names in braces. Other names stay."""
    return _FIELD.sub(lambda found: values.get(found[1], found[0]), template)


def filled_replies(template: str, rows: Sequence[Row]) -> dict[int, str]:
    """Return the replies that a rendering without GOLD describes, by the index of their task.

    Tasks that lack a field are left out. The result is empty for a rendering with GOLD (`…` in reports).
    """
    names = list(dict.fromkeys(_FIELD.findall(template)))
    if not names or GOLD_MARK in template or "\N{HORIZONTAL ELLIPSIS}" in template:
        return {}
    values = {row.index: {name: _value(row, name) for name in names} for row in rows}
    return {
        index: filled(template, {name: text for name, text in of_task.items() if text is not None})
        for index, of_task in values.items()
        if None not in of_task.values()
    }


def filled_gold(form: str, gold: str, row: Row) -> str:
    """Return a reply in a form with GOLD in the place of the answer and values in that of the fields in braces."""
    before, _, after = form.partition(GOLD_MARK)
    return f"{_filled(before, row)}{gold}{_filled(after, row)}"


def gold_replies(template: str, rows: Sequence[Row], *, named: bool = False) -> dict[int, str]:
    """Return right replies in a form that names further fields, by the index of their task; the last `…` is the gold.

    The result is empty for a form of the gold alone, unless a caller `named` it, and for one that the prompts do not
    ask for.
    """
    dots = "\N{HORIZONTAL ELLIPSIS}"
    before, found, after = template.rpartition(dots)
    form = f"{before}{GOLD_MARK}{after}"
    golds = next(iter(gold_candidates(rows)), None)
    if (
        not found
        or golds is None
        or not (named or _FIELD.search(template))
        or not rendering_from_template(form).is_asked_for(rows)
    ):
        return {}
    by_index = {gold.row: gold.forms[0] for gold in golds.golds if gold.forms}
    return {
        row.index: filled_gold(form, by_index[row.index], row)
        for row in rows
        if row.index in by_index and all(_value(row, name) is not None for name in _FIELD.findall(template))
    }


_FEWEST_FILLED = 2
"""Number of tasks whose right replies must have the same form of fields."""
_IN_TEXT = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def form_of_fields(replies: Sequence[tuple[int, str]], rows: Sequence[Row], fields: Sequence[str]) -> str:
    """Return the form of the last line of right replies, with fields of their tasks in the place of the values.

    `replies` are pairs of a task's index and a text. Empty without two tasks, for lines of different forms, and for
    lines that have a number that no field holds.
    """
    by_index = {row.index: row for row in rows}
    forms = {
        (index, _with_fields(next((x for x in reversed(text.splitlines()) if x.strip()), ""), by_index[index], fields))
        for index, text in replies
        if index in by_index
    }
    found = {form for _, form in forms}
    form = found.pop() if len(found) == 1 and len(forms) >= _FEWEST_FILLED else ""
    return form if len(form) <= _LONGEST and _FIELD.search(form) and not re.search(r"\d", _FIELD.sub("", form)) else ""


def _with_fields(line: str, row: Row, fields: Sequence[str]) -> str:
    """Return a line in which the first text or number that is the value of a field is the field in braces."""
    pieces: list[tuple[str, bool]] = [(line.strip(), False)]
    known = {name: value for name in fields if (value := _value(row, name))}
    for name, value in sorted(known.items(), key=lambda item: -len(item[1])):
        for place, (piece, is_field) in enumerate(pieces):
            at = None if is_field else _span_of(value, piece)
            if at is not None:
                pieces[place : place + 1] = [(piece[: at[0]], False), (f"{{{name}}}", True), (piece[at[1] :], False)]
                break
    return "".join(piece for piece, _ in pieces)


def _span_of(value: str, text: str) -> tuple[int, int] | None:
    """Return where a text has a value: as the same number, or as the same whole words."""
    number = number_in(value) if _IN_TEXT.fullmatch(value) else None
    if number is not None:
        return next((f.span() for f in _IN_TEXT.finditer(text) if number_in(f[0]) == number), None)
    found = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.I)
    return found.span() if found is not None else None


def lacks_answer(rendering: GoldRendering, golds: SampleGolds, rows: Sequence[Row]) -> bool:
    """Whether words or numbers of most golds stand in no field that the rendering names."""
    by_index = {row.index: row for row in rows}
    lacking = 0
    for gold in golds.golds:
        named = " ".join(_value(by_index[gold.row], name) or "" for name in rendering.fields).casefold()
        lacking += not set(_WORD.findall(gold_text(gold.raw).casefold())) <= set(_WORD.findall(named))
    return 2 * lacking > len(golds.golds)


_WORD = re.compile(r"\w+")


def golds_of_replies(replies: Mapping[int, str]) -> tuple[AnswerWrapper, SampleGolds]:
    """Return right replies of tasks as golds: what all replies share is the wrapper, and the rest is the gold.

    A gold with tags in it is made of the texts between the tags.
    """
    rows = list(replies)
    before, inner, after = _shared(list(replies.values()))
    pieces = [_TAG.split(text) for text in inner]
    names = [f"part_{n // 2 + 1}" for n in range(len(pieces[0]))]
    if len({tuple(p[1::2]) for p in pieces}) > 1:
        pieces, names = [[text] for text in inner], ["reply"]
    template, values = "", [dict[str, str]() for _ in rows]
    for n in range(len(pieces[0])):
        lead, texts, tail = _shared([p[n] for p in pieces]) if n % 2 == 0 else (pieces[0][n], [], "")
        varied = len(set(texts)) > 1 or len(pieces[0]) == 1
        template += f"{lead}{{{names[n]}}}{tail}" if varied else pieces[0][n]
        for held, text in zip(values, texts if varied else (), strict=False):
            held[names[n]] = text
    golds = _composed(template, dict(zip(rows, values, strict=True)))
    if GOLD_MARK in before + after:
        return AnswerWrapper("phrase", before, after), golds
    return (wrapper_from_template(f"{before}{GOLD_MARK}{after}") if before + after else BARE), golds


_TAG = re.compile(r"(\s*</?[A-Za-z][\w-]*>\s*)")


def _common(texts: Sequence[str]) -> int:
    """Return the number of characters with which all texts begin."""
    return sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))


def _shared(texts: Sequence[str]) -> tuple[str, list[str], str]:
    """Return what all texts begin with, what each has of its own, and what all end with; words stay whole."""
    if len(set(texts)) < 2:
        return "", list(texts), ""
    start = _common(texts)
    while start and any(text[start - 1].isalnum() for text in texts):
        start -= 1
    rest = [text[start:] for text in texts]
    end = _common([text[::-1] for text in rest])
    while end and any(text[len(text) - end].isalnum() for text in rest):
        end -= 1
    inner = [text[: len(text) - end] for text in rest]
    if not all(text.strip() for text in inner):
        return "", list(texts), ""
    return texts[0][:start], inner, rest[0][len(rest[0]) - end :]


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
        if part.isdigit():
            parts = _parts(value)
            value = parts[int(part) - 1] if 0 < int(part) <= len(parts) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return _text(value)


_SEPARATORS = ("\n", "\t", "|", ";")


def _parts(value: Any) -> list[Any]:
    """Return the items of a list, or those of a text that a separator divides, such as `Cork|Sunday`."""
    if isinstance(value, list):
        return value
    separator = next((s for s in _SEPARATORS if isinstance(value, str) and s in value.strip()), None)
    return value.strip().split(separator) if separator is not None else []


def _named(row: Row) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a task and, as `info.unit`, those of objects among them."""
    for name, value in task_fields(row).items():
        yield name, value
        for inner, held in value.items() if isinstance(value, Mapping) else ():
            yield f"{name}.{inner}", held
        if name == "answer":
            yield from ((f"{name}.{n}", part) for n, part in enumerate(_parts(value)[:_MOST_PARTS], 1))


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    return text if 0 < len(text) <= _LONGEST else None
