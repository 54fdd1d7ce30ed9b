"""What an inspection says is what a template can read: every row of a shape becomes a task, with the gold it names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.authoring.assembly import Template
from prime_lab_mcp.lab.authoring.build import template_row_reader
from prime_lab_mcp.lab.authoring.template import ConstantValue
from prime_lab_mcp.lab.datasets.inspection import TEMPLATES, Inspection
from prime_lab_mcp.lab.datasets.options import options_of_row
from prime_lab_mcp.lab.datasets.row_values import compose_prompt
from tests.lab.datasets.shapes import (
    test_shapes_choice,
    test_shapes_classes,
    test_shapes_math,
    test_shapes_programs,
    test_shapes_text,
    test_shapes_unseen,
)
from tests.lab.datasets.shapes.shape import Shape, inspected

PACKAGES = Path(__file__).parents[4] / "prime_lab_mcp" / "resources" / "templates"
MODULES = (
    test_shapes_math,
    test_shapes_choice,
    test_shapes_classes,
    test_shapes_text,
    test_shapes_programs,
    test_shapes_unseen,
)
WITHOUT_GOLD = {
    "NuminaMath-1.5": "a quarter of its golds are `proof` and `notfound`",
    "squad_v2": "a third of its questions have no answer",
}
SHAPES = [
    shape
    for module in MODULES
    for shape in module.SHAPES
    if shape.prompt
    and shape.format
    and TEMPLATES.get(shape.format.removeprefix("mixed "), "free_text") != "free_text"
    and "class-names-unknown" not in shape.codes
]


def read(found: Inspection, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The row as the recommended template reads it under the constants that an inspection gives."""
    assert found.prompt is not None
    assert found.answer is not None
    constants: dict[str, ConstantValue] = {
        "PROMPT_COLUMNS": found.prompt.columns,
        "ANSWER_COLUMN": found.answer.path,
        "OPTION_COLUMNS": found.option_columns,
        "INDEX_BASE": found.index_base,
        "LABELS": found.labels,
        "ANY_OF": found.any_of is not False,
    }
    assert found.recommended is not None
    key = (found.recommended.kind, repr(constants))
    if key not in _READERS:
        _READERS[key] = template_row_reader(Template(PACKAGES / found.recommended.kind), constants)
    task: Mapping[str, Any] | None = _READERS[key](row)
    return task


_READERS: dict[tuple[str, str], Any] = {}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_rows_become_tasks_that_ask_what_was_judged(shape: Shape) -> None:
    found = inspected(shape)
    assert found.prompt is not None
    rows = [shape.row(n) for n in range(40)]
    tasks = [read(found, row) for row in rows]
    there = [(row, task) for row, task in zip(rows, tasks, strict=True) if task is not None]
    assert len(there) >= (20 if shape.name in WITHOUT_GOLD else 38)
    assert all(compose_prompt(row, found.prompt.columns) in task["question"] for row, task in there)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s.options], ids=lambda shape: shape.name)
def test_the_letter_of_a_task_is_that_of_the_option_that_the_gold_names(shape: Shape) -> None:
    found = inspected(shape)
    assert found.answer is not None
    for n in range(40):
        row = shape.row(n)
        task = read(found, row)
        texts, place = options_of_row(row, found.option_columns, found.answer.path, found.index_base)
        assert task is not None
        assert place is not None
        assert task["options"] == list(texts)
        assert task["answer"] == "ABCDEFGHIJ"[place]
