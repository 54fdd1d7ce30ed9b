"""Chooses the rows of a new environment: only rows that the template can read, each question once, none in both splits.

The template's own code reads the rows, so the environment can read all packaged rows. The template modules are pure.
They are imported under a temporary name, without the package's `__init__` (which would import verifiers), and unloaded
afterwards.
"""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from types import ModuleType
from typing import Any

from prime_lab_mcp.lab.authoring.assembly import Template
from prime_lab_mcp.lab.authoring.dropped_rows import DroppedRows
from prime_lab_mcp.lab.authoring.naming import PackageNames
from prime_lab_mcp.lab.authoring.template import ConstantValue, TemplateChanges, instantiate_template
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.near_duplicates import ComparedPrompt, search_near_duplicates

RowReader = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
RawRow = tuple[int, Mapping[str, Any]]
_ONE_AT_A_TIME = threading.Lock()


def template_row_reader(template: Template, constants: Mapping[str, ConstantValue]) -> RowReader:
    """Load `shape.canonical` of a template with these constants.

    The function converts a raw row to a row of the template, or returns None for an unreadable row.
    """
    name = f"prime_lab_shape_{token_hex(6)}"
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory(prefix="shape-") as scratch:
        instantiate_template(
            template, Path(scratch), TemplateChanges(PackageNames(name, name.replace("_", "-"), "Shape"), constants)
        )
        package = ModuleType(name)
        package.__path__ = [str(Path(scratch, name))]
        sys.modules[name] = package
        importlib.invalidate_caches()
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            shape = importlib.import_module(f"{name}.shape")
        finally:
            sys.dont_write_bytecode = writes
            for loaded in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
                del sys.modules[loaded]
    reader: RowReader = shape.canonical
    return reader


_MOST_VALUES = 40
"""Most values of a column that is shown as an example of selecting tasks. A column with more names single tasks."""


def selecting_example(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, Any] | None:
    """Return a `where` that selects some of the tasks, such as `{"category": ["hard"]}`; None if no column groups them.

    `rows` are the tasks' rows, which carry `columns` as `metadata`.
    """
    for name in columns:
        values = [row["metadata"].get(name) for row in rows]
        numbers = Counter(value for value in values if isinstance(value, str | int) and not isinstance(value, bool))
        if 2 <= len(numbers) <= min(_MOST_VALUES, len(rows) // 2):
            return {name: [numbers.most_common(1)[0][0]]}
    return None


def with_metadata(read: RowReader, columns: Sequence[str]) -> RowReader:
    """Return a reader whose rows carry these columns of the raw row as `metadata`."""
    if not columns:
        return read

    def reading(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
        row = read(raw)
        return None if row is None else {**row, "metadata": {name: raw.get(name) for name in columns}}

    return reading


SPLIT_SEED = 7
HELD_OUT_SHARE = 0.1
MOST_HELD_OUT = 500
PackagedExample = Mapping[str, Any]


def split_rows(
    train: Iterable[RawRow],
    held_out: Iterable[RawRow] | None,
    read: RowReader,
    format: str = "",
    dropped: DroppedRows | None = None,
) -> tuple[list[PackagedExample], list[PackagedExample], DroppedRows]:
    """Return the training examples, the held-out examples, and the dropped rows. Training examples are shuffled with a
    seed.

    Without a held-out split, a tenth of the examples (at most 500) is held out, spread evenly over the answers. An
    example that paraphrases another one is trained on; so is one with a label that differs from another one with this
    label in numbers only. `format` is that of the answers. What is left out is added to `dropped`.
    """
    dropped = DroppedRows() if dropped is None else dropped
    unique = _unique_rows(train, read, dropped)
    chance = random.Random(SPLIT_SEED)
    if held_out is not None:
        out = _unique_rows(held_out, read, dropped)
        for key in (k for k in unique if k in out):
            dropped.add("leaked", *unique[key].raw)
        inside = [e.row for k, e in unique.items() if k not in out]
        chance.shuffle(inside)
        return inside, [e.row for e in out.values()], dropped
    examples = [e.row for e in unique.values()]
    chance.shuffle(examples)
    number = min(MOST_HELD_OUT, max(1, int(len(examples) * HELD_OUT_SHARE))) if len(examples) > 1 else 0
    chosen_rows = _without_paraphrases(examples, _spread(examples, number), format)
    return (
        [e for n, e in enumerate(examples) if n not in chosen_rows],
        [examples[n] for n in sorted(chosen_rows)],
        dropped,
    )


def _spread(examples: list[PackagedExample], number: int) -> set[int]:
    """Positions of `number` examples among which each answer has the same share as in the whole."""
    ordered = sorted(range(len(examples)), key=lambda n: _answer(examples[n]))
    return {ordered[int((n + 0.5) * len(ordered) / number)] for n in range(number)}


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_DRAWS = 4
"""Most times that paraphrased examples are replaced. Each draw is a search for near duplicates."""


def _without_paraphrases(examples: list[PackagedExample], chosen: set[int], format: str) -> set[int]:
    """The chosen positions, where each example that has a near duplicate among the others is replaced by another.

    The replacement has the same answer if there is one left. What is still paraphrased at the end is not held out, as
    long as something is.
    """
    prompts = [
        ComparedPrompt(n, golds.normalised_text(row["question"]), _answer(row).encode())
        for n, row in enumerate(examples)
    ]
    refused: set[int] = set()
    for draw in range(_DRAWS + 1):
        inside, out = [p for p in prompts if p.index not in chosen], [p for p in prompts if p.index in chosen]
        near = dict(search_near_duplicates(inside, out, format).matches)
        if format == "label":
            near |= _equal_but_for_numbers(inside, out)
        if not near:
            return chosen
        refused |= near.keys()
        left = [n for n in range(len(examples)) if n not in chosen and n not in refused and n not in near.values()]
        kept = chosen - near.keys()
        if draw == _DRAWS:
            return kept or chosen
        for n in sorted(near):
            same = next((m for m in left if _answer(examples[m]) == _answer(examples[n])), None)
            if same is not None:
                left.remove(same)
                kept.add(same)
        if not kept:
            return chosen
        chosen = kept
    return chosen


def _equal_but_for_numbers(inside: Sequence[ComparedPrompt], out: Sequence[ComparedPrompt]) -> dict[int, int]:
    """Map the second prompts to one of the first with the same answer and the same text but for numbers.

    The number of an order or a ticket tells nothing of its label, so that such a prompt is known from training.
    """
    texts = {(_NUMBER.sub("0", p.text), p.gold): p.index for p in inside}
    same = {p.index: texts.get((_NUMBER.sub("0", p.text), p.gold)) for p in out}
    return {index: other for index, other in same.items() if other is not None}


@dataclass(frozen=True, slots=True)
class _ReadRow:
    """A row of the template, and the raw row that it was read from."""

    row: PackagedExample
    raw: RawRow


def _unique_rows(rows: Iterable[RawRow], read: RowReader, dropped: DroppedRows) -> dict[str, _ReadRow]:
    unique: dict[str, _ReadRow] = {}
    conflicts: dict[str, list[RawRow]] = {}
    for index, raw in rows:
        dropped.of += 1
        row = _read(read, raw)
        if row is None:
            dropped.add(dropped.columns.reason(raw), index, raw)
            continue
        key = golds.normalised_text(row["question"])
        if key not in unique:
            unique[key] = _ReadRow(row, (index, raw))
        elif _answer(unique[key].row) == _answer(row):
            dropped.add("repeated", index, raw)
        else:
            conflicts.setdefault(key, [unique[key].raw]).append((index, raw))
    for key, contradicting in conflicts.items():
        del unique[key]
        for index, raw in contradicting:
            dropped.add("conflicting", index, raw)
    return unique


def _read(read: RowReader, raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    try:
        row = read(raw)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, ArithmeticError):
        return None  # a row that makes the template's reader raise counts as unreadable
    return row if row is not None and str(row["question"]).strip() else None


def _answer(row: PackagedExample) -> str:
    return json.dumps(row.get("answer"), sort_keys=True, ensure_ascii=False)


def as_jsonl(examples: Iterable[PackagedExample]) -> str:
    """The rows as JSON lines, which the templates read."""
    return "".join(json.dumps(dict(e), ensure_ascii=False) + "\n" for e in examples)
