"""Tasks that are drawn in equal shares by a field."""

from __future__ import annotations

from collections import Counter

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.evals.stratified import drawn_tasks
from prime_lab_mcp.lab.worker.description import Row

LEVELS = ["easy"] * 80 + ["medium"] * 15 + ["hard"] * 5
ROWS = [
    Row(n, f"k{n}", (), None, None, {"level": level, "id": n, "metadata": {"kind": n % 2}})
    for n, level in enumerate(LEVELS)
]


def levels(drawn: tuple[int, ...]) -> dict[str, int]:
    return dict(Counter(LEVELS[n] for n in drawn))


def test_every_value_has_the_same_share_as_long_as_it_has_tasks() -> None:
    assert levels(drawn_tasks(ROWS, "level", 12, 0)) == {"easy": 4, "medium": 4, "hard": 4}
    assert levels(drawn_tasks(ROWS, "level", 30, 0)) == {"easy": 13, "medium": 12, "hard": 5}
    assert levels(drawn_tasks(ROWS, "level", 500, 0)) == dict(Counter(LEVELS))


def test_the_seed_decides_which_tasks_and_fields_of_the_metadata_count_too() -> None:
    assert drawn_tasks(ROWS, "level", 12, 0) == drawn_tasks(ROWS, "level", 12, 0)
    assert drawn_tasks(ROWS, "level", 12, 0) != drawn_tasks(ROWS, "level", 12, 1)
    assert Counter(n % 2 for n in drawn_tasks(ROWS, "kind", 10, 0)) == {0: 5, 1: 5}


def test_a_field_that_no_task_has_or_that_names_single_tasks_is_refused_with_the_fields() -> None:
    with pytest.raises(BadInput) as refused:
        drawn_tasks(ROWS, "difficulty", 10, 0)
    assert '"level"' in refused.value.fix
    with pytest.raises(BadInput, match="too many"):
        drawn_tasks(ROWS, "id", 10, 0)
