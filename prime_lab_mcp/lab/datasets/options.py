"""Reads the answer options of a row: the columns that hold them, their texts, and the right option.

Known layouts: a list; `{text: [...], label: [...]}` (ARC); `{A: ..., B: ...}` (MedQA); a list of `{label, text}`; one
string (`a ) 38 , b ) 27`, MathQA); a column per option (`A`..`D`, `option1`, `sol1`, `ending0`); the right answer and
the wrong answers in separate columns (SciQ, GPQA).
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.row_values import snake_case, value_at

_LISTED = (
    "choices",
    "options",
    "endings",
    "answer_choices",
    "candidates",
    "alternatives",
    "answer_options",
    "possible_choices",
    "multiple_choices",
    "mc1_targets",
    "mc_answers",
)
_STEMS = "option|choice|ending|answer|ans|sol|solution|alternative|opt|op|candidate"
_LETTERED = re.compile(rf"^(?:(?P<stem>{_STEMS})_?(?P<place>[0-9]|[a-j])|(?P<bare>[a-j]))$")
_WRONG = re.compile(r"^(?:distractor|incorrect|wrong|incorrect_answer|wrong_answer|false_answer)_?[0-9]+$")
_WRONG_LIST = frozenset({"incorrect_answers", "distractors", "wrong_answers", "incorrect_choices"})
_RIGHT = ("correct_answer", "correct", "right_answer", "answer")
_MARK = re.compile(r"(?:^|(?<=[\s,;]))[\[(]?([A-Ja-j])\s?[).:\]]\s*")
_LETTER = re.compile(r"[\[(]?([A-Za-z])[\]).:]?")
_MOST_OPTIONS = 26

OfferedOptions = tuple[tuple[str, ...], int | None]


def option_columns(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the paths of the columns that hold the options; empty if there are none."""
    sample = list(rows)[:50]
    names = list(dict.fromkeys(name for row in sample for name in row))
    return _listed(sample, names) or _lettered(names) or _right_and_wrong(names)


def _listed(sample: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[str, ...]:
    paths = [n for n in names if snake_case(n) in _LISTED]
    for name in names:
        inner: Mapping[str, Any] = next((row[name] for row in sample if isinstance(row.get(name), Mapping)), {})
        paths += [f"{name}.{field}" for field in inner if snake_case(str(field)) in _LISTED]
    for path in paths:
        inner = next((value for row in sample if isinstance(value := value_at(row, path), Mapping)), {})
        path = next((f"{path}.{field}" for field in ("choices", "options") if isinstance(inner.get(field), list)), path)
        parts = [_parts(value_at(row, path)) for row in sample]
        if parts and sum(len(texts) >= 2 for texts, _ in parts) >= 0.8 * len(parts):
            return (path,)
    return ()


def _lettered(names: Sequence[str]) -> tuple[str, ...]:
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _LETTERED.match(snake_case(name)):
            groups.setdefault(match["stem"] or "", {})[match["place"] or match["bare"]] = name
    for stem, group in groups.items():
        places = sorted(group)
        run = _run(places)
        if run >= (2 if stem else 3):
            return tuple(group[p] for p in places[:run])
    return ()


def _run(places: Sequence[str]) -> int:
    """Return the length of the run of consecutive characters that begins with 0, 1 or a; 0 if there is none."""
    if not places or places[0] not in "01a":
        return 0
    return next((n for n, p in enumerate(places) if ord(p) != ord(places[0]) + n), len(places))


def _right_and_wrong(names: Sequence[str]) -> tuple[str, ...]:
    by_name = {snake_case(name): name for name in names}
    wrong = sorted(name for name in names if _WRONG.match(snake_case(name)))
    listed = [by_name[n] for n in by_name if n in _WRONG_LIST][:1]
    right = next((by_name[n] for n in _RIGHT if n in by_name), None)
    if right is None or (len(wrong) < 2 and not listed):
        return ()
    return (*(wrong if len(wrong) >= 2 else listed), right)


def names_right_option(path: str) -> bool:
    """Return whether a column of this name holds the right option."""
    return snake_case(path) in _RIGHT


def options_of_row(
    row: Mapping[str, Any], columns: Sequence[str], answer: str | None = None, index_base: int | None = None
) -> OfferedOptions:
    """Return the texts of a row's options in display order, and the position of the right option, counted from 0.

    The gold in the column `answer` may be the label of an option, a letter, an index that counts from `index_base`, the
    option's text, or a list of zeros with a single one. The position is None if the gold names no option.

    If the right option has a column of its own, or a list marks it, its position would be the same in every row and
    reveal the answer. In these cases, `shuffled_by_text` shuffles the options.
    """
    texts, labels = _all(row, columns)
    value = value_at(row, answer) if answer is not None else None
    place = None if value is None or not texts else _position(value, texts, labels, index_base)
    if isinstance(value, list) or (len(columns) > 1 and answer in columns):
        order = shuffled_by_text(texts)
        return tuple(texts[n] for n in order), None if place is None else order.index(place)
    return tuple(texts), place


def shuffled_by_text(texts: Sequence[str]) -> list[int]:
    """Return the indices of the texts in an order that looks random but depends only on the texts (SHA-256)."""
    joined = "\n".join(sorted(texts))
    digests = [hashlib.sha256(f"{joined}\n{text}".encode("utf-8", "replace")).digest() for text in texts]
    return sorted(range(len(texts)), key=lambda n: digests[n])


def _all(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[list[str], list[str]]:
    if len(columns) == 1:
        return _parts(value_at(row, columns[0]))
    texts: list[str] = []
    for column in columns:
        value = value_at(row, column)
        texts += [golds.gold_text(v) for v in (value if isinstance(value, list) else [value]) if v not in (None, "")]
    return texts, []


def _parts(value: Any) -> tuple[list[str], list[str]]:
    """Return the texts of the options in a value, and their labels if the data has labels."""
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Mapping):
        return _of_object(value)
    if not isinstance(value, list) or not 2 <= len(value) <= _MOST_OPTIONS:
        return [], []
    if all(isinstance(v, Mapping) for v in value):
        texts = [_field(v, ("text", "value", "content", "option", "answer")) for v in value]
        labels = [_field(v, ("label", "key", "id", "letter")) for v in value]
        return ([t or "" for t in texts], [label for label in labels if label]) if all(texts) else ([], [])
    return _unmarked([golds.gold_text(v) for v in value])


def _of_object(value: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    texts = next((value[k] for k in ("text", "choices", "options") if isinstance(value.get(k), list)), None)
    if texts is not None:
        labels: list[Any] = next((value[k] for k in ("label", "labels", "key") if isinstance(value.get(k), list)), [])
        marks = [str(label) for label in labels]
        return [golds.gold_text(t) for t in texts], marks if len(set(marks)) == len(texts) else []
    keys = [str(k) for k in value if _LETTER.fullmatch(str(k)) or str(k).isdigit()]
    filled = [k for k in sorted(keys) if value[k] not in (None, "")]
    return ([golds.gold_text(value[k]) for k in filled], filled) if len(keys) == len(value) >= 2 else ([], [])


def _field(value: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((str(value[n]) for n in names if value.get(n) not in (None, "")), None)


def _parsed(text: str) -> Any:
    """Parse a text with options: JSON, a Python list, `a ) 38 , b ) 27`, or one option on each line."""
    if len(text) <= 20_000 and text.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
    marks = _in_order(list(_MARK.finditer(text)))
    if len(marks) >= 2:
        ends = [m.start() for m in marks[1:]] + [len(text)]
        return [text[m.end() : end].strip().rstrip(",;").strip() for m, end in zip(marks, ends, strict=True)]
    return [line.strip() for line in text.splitlines() if line.strip()]


def _in_order(marks: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """Return the letters that mark options, in the order a, b, c. Other letters belong to the texts of options."""
    ordered: list[re.Match[str]] = []
    for mark in marks:
        if ord(mark[1].lower()) == ord("a") + len(ordered):
            ordered.append(mark)
    return ordered


def _unmarked(texts: list[str]) -> tuple[list[str], list[str]]:
    """Remove the mark (`A)`, `B)`, ...) at the start of each text, if all texts have one."""
    for number, text in enumerate(texts):
        match = _MARK.match(text)
        if match is None or ord(match[1].lower()) != ord("a") + number:
            return texts, []
    return [text[_MARK.match(text).end() :].strip() for text in texts], []  # type: ignore[union-attr]


def _position(value: Any, texts: Sequence[str], labels: Sequence[str], base: int | None) -> int | None:
    if isinstance(value, list):
        marks = [n for n, v in enumerate(value) if v in (1, True)]
        is_mask = len(value) == len(texts) and all(v in (0, 1) for v in value)
        return marks[0] if is_mask and len(marks) == 1 else None
    gold = golds.gold_text(value).strip()
    if gold in labels:
        return list(labels).index(gold)
    place = None
    if base is not None and re.fullmatch(r"-?[0-9]{1,3}", gold):
        place = int(gold) - base
    elif gold in texts:
        place = list(texts).index(gold)
    elif letter := _LETTER.fullmatch(gold):
        place = ord(letter[1].lower()) - ord("a")
    if place is not None:
        return place if 0 <= place < len(texts) else None
    normalised = golds.normalised_text(gold)
    return next((n for n, text in enumerate(texts) if golds.normalised_text(text) == normalised), None)
