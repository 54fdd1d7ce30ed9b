"""Options whose look tells the right one."""

from __future__ import annotations

import random

import pytest

from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.tasks import TaskRow

TOWNS = ["Graz", "Turku", "Vigo", "Brno", "Ghent", "Cork", "Aarhus", "Lecce", "Porto", "Lodz", "Split", "Varna"]


def questions(right: str = "{}", wrong: str = "{}", ask: str = "Which town is number {}?") -> list[TaskRow]:
    """Questions with four towns, of which the right one and the wrong ones are written in their own way."""
    chance = random.Random(4)
    rows = []
    for n in range(60):
        towns = chance.sample(TOWNS, 4)
        at = chance.randrange(4)
        options = [(right if place == at else wrong).format(town) for place, town in enumerate(towns)]
        prompt = f"{ask.format(n)}\n" + "\n".join(f"{'ABCD'[k]}. {option}" for k, option in enumerate(options))
        rows.append(
            TaskRow(prompt, "ABCD"[at], n, raw="ABCD"[at], offered=True, options=tuple(options), gold_option=at)
        )
    return rows


def blamed(rows: list[TaskRow]) -> list[tuple[str, str]]:
    findings = row_findings(rows, format="choice_letter")
    return [(f.severity, f.message) for f in findings if f.code == "position-bias"]


@pytest.mark.parametrize(
    ("right", "wrong", "look"),
    [
        ("{}, as the map on the wall shows", "{}", "the longest"),
        ("{}", "{}, or so he says now", "the shortest"),
        ("{} 4", "{} x", "the only one with a digit"),
        ("{}.", "{}!", "the only one with a full stop"),
    ],
)
def test_a_look_that_only_right_options_have_blocks_and_is_named(right: str, wrong: str, look: str) -> None:
    ((severity, message),) = blamed(questions(right, wrong))
    assert severity == "blocker"
    assert look in message


def test_options_that_are_written_alike_tell_nothing() -> None:
    assert blamed(questions()) == []


def test_questions_about_the_look_of_options_are_no_flaw() -> None:
    assert blamed(questions("{}, as the map shows", "{}", "Which option is the longest one in row {}?")) == []
