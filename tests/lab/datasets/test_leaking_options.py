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


def sums(wrong: list[int], ask: str = "What is left of {} crates?") -> list[TaskRow]:
    """Questions with four numbers; each wrong one is as far from the right one as `wrong` says."""
    chance = random.Random(5)
    rows = []
    for n in range(60):
        right, order = chance.randrange(40, 90), chance.sample(range(4), 4)
        values = [right, *(right + chance.randrange(1, 4) * way for way in wrong)]
        values = (
            values if len(set(values)) == 4 else [right, *(right + 5 * (k + 1) * way for k, way in enumerate(wrong))]
        )
        options = [f"{values[k]}.50 euros" for k in order]
        prompt = f"{ask.format(n)}\n" + "\n".join(f"{'ABCD'[k]}. {option}" for k, option in enumerate(options))
        at = order.index(0)
        rows.append(
            TaskRow(prompt, "ABCD"[at], n, raw="ABCD"[at], offered=True, options=tuple(options), gold_option=at)
        )
    return rows


def test_the_same_mistakes_in_every_row_tell_the_rank_of_the_right_number() -> None:
    ((severity, message),) = blamed(sums([-1, 1, 1]))
    assert severity == "blocker"
    assert "the second smallest number in 100%" in message
    ((_, largest),) = blamed(sums([-1, -1, -1]))
    assert "the largest number" in largest


def test_a_question_about_the_size_of_its_options_is_no_flaw() -> None:
    assert blamed(sums([-1, -1, -1], "Which is the largest of these {}?")) == []


def test_wrong_numbers_on_both_sides_by_chance_tell_nothing() -> None:
    rows = [
        row for k, ways in enumerate([[-1, -1, -1], [-1, -1, 1], [-1, 1, 1], [1, 1, 1]]) for row in sums(ways)[k::4]
    ]
    assert blamed(rows) == []
