"""Labels of prompts behind which the answers stand."""

from __future__ import annotations

import json
import random

import pytest

from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.labelled_golds import LabelledGolds
from prime_lab_mcp.lab.datasets.tasks import TaskRow

SHOWN = [
    '{{"day": 3, "total_weight": {0}, "crates": 4}}',
    "Total weight: {0} kg",
    "<total>{0}</total>",
    "| total | {0} |",
]


def harvest(row: int, total: str | None = None) -> tuple[str, int]:
    """Crates whose weights have to be added up. The record's keys have changing places; `total` names the sum."""
    chance = random.Random(row)
    weights = {f"crate_{n}": chance.randint(100, 400) for n in range(4)}
    fields: dict[str, int] = {**weights, "lorry": chance.randint(100, 999), "farm": chance.randint(100, 999)}
    if total is not None:
        fields[total] = sum(weights.values())
    names = chance.sample(sorted(fields), len(fields))
    record = json.dumps({name: fields[name] for name in names})
    return f"{record}\nHow much do the crates weigh together?", sum(weights.values())


def warned(total: str | None, more: str = "") -> list[tuple[str, str]]:
    pairs = [harvest(n, total) for n in range(80)]
    rows = [TaskRow(f"{prompt}{more}", str(gold), n) for n, (prompt, gold) in enumerate(pairs)]
    findings = row_findings(rows, format="numeric")
    return [(f.severity, f.message) for f in findings if f.code == "gold-in-prompt"]


def test_the_sum_that_stands_in_the_record_under_a_key_is_a_warning_with_the_key_and_the_share() -> None:
    ((severity, message),) = warned("loaded_kg")
    assert (severity, "loaded_kg" in message, "100%" in message) == ("warning", True, True)


def test_a_sum_that_the_prompts_ask_to_work_out_must_not_stand_in_the_record() -> None:
    assert [severity for severity, _ in warned("loaded_kg", " Show your work.")] == ["blocker"]
    assert warned(None, " Show your work.") == []


def test_a_record_without_the_sum_gives_nothing_away() -> None:
    assert warned(None) == []


@pytest.mark.parametrize("shown", SHOWN)
def test_entries_of_json_lines_elements_and_tables_have_labels(shown: str) -> None:
    golds = LabelledGolds()
    for n in range(30):
        golds.add(f"Report {n}\n{shown.format(f'{n + 2},100.50')}\nWhat is it?", f"{n + 2}100.5")
    found = golds.best()
    assert found is not None
    assert found[1] == 1.0


def test_a_label_whose_first_and_last_entries_are_others_is_no_shortcut() -> None:
    golds = LabelledGolds()
    for n in range(30):
        golds.add(f"price: 1\nprice: {n + 10}\nprice: 2\nThe middle one?", str(n + 10))
    assert golds.best() is None


def test_one_answer_of_nearly_all_rows_needs_no_label() -> None:
    golds = LabelledGolds()
    for n in range(30):
        golds.add(f"row: {n}\nlimit: 40\nHow many?", "40")
    assert golds.best() is None
