"""The arguments that select the easiest tasks of an environment."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.environment.easy_tasks import easiest_arguments
from prime_lab_mcp.lab.worker.description import Arg

WHERE = Arg("where", "dict[str, list[str | int | float | bool | None]] | None", None, False)
SPLIT = Arg("split", "Literal['train', 'eval']", "train", False, ("train", "eval"))
LEVEL = Arg("level", "Literal['all', 'easy', 'hard']", "all", False, ("all", "easy", "hard"))


def tasks(**columns: list[Any]) -> list[dict[str, Any]]:
    return [
        {"metadata": dict(zip(columns, values, strict=True))}
        for values in zip(*columns.values(), strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "fields", "expected"),
    [
        ([SPLIT, LEVEL], [], {"level": "easy"}),
        ([SPLIT, WHERE], tasks(level=["hard", "easy", "medium"]), {"where": {"level": ["easy"]}}),
        ([SPLIT, WHERE], tasks(kind=["Hard", "Easy"]), {"where": {"kind": ["Easy"]}}),
        ([SPLIT, WHERE], tasks(topic=["a", "b"], difficulty=[3, 1]), {"where": {"difficulty": [1]}}),
        ([SPLIT, WHERE], tasks(topic=["sums", "areas"]), None),
        ([SPLIT, WHERE], tasks(level=["easy", "easy"]), None),
        ([SPLIT], tasks(level=["easy", "hard"]), None),
        ([SPLIT, WHERE], [], None),
    ],
)
def test_the_easiest_tasks_are_selected_by_what_the_environment_takes_and_the_tasks_carry(
    args: list[Arg], fields: list[dict[str, Any]], expected: dict[str, Any] | None
) -> None:
    assert easiest_arguments(args, fields) == expected
