"""Fields of prompts that decide the answers."""

from __future__ import annotations

import random

from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.leaking_fields import find_leaking_field
from prime_lab_mcp.lab.datasets.tasks import TaskRow

TEAMS = ("billing", "shipping")


def mails(queue: dict[str, str], number: int = 60) -> list[tuple[str, str]]:
    """Mails with a header of three fields, one of which names a queue, and the team that answers each."""
    chance = random.Random(1)
    rows = []
    for n in range(number):
        team = TEAMS[n % 2]
        state = chance.choice(["open", "new"])
        rows.append((f"Id: {n}\nQueue: {queue[team]}, {state}\nFrom: a{n}@mail.example\n\nIt is about {team}.", team))
    return rows


def test_a_field_that_is_written_with_the_labels_is_named_with_its_values() -> None:
    told = find_leaking_field(mails({"billing": "money", "shipping": "vans"}))
    assert told is not None
    assert (told.name, told.share, dict(told.examples)) == ("Queue", 1.0, {"billing": "money", "shipping": "vans"})


def test_a_field_with_the_same_values_for_every_answer_tells_nothing() -> None:
    assert find_leaking_field(mails({"billing": "desk", "shipping": "desk"})) is None


def test_values_that_hardly_ever_occur_again_decide_by_coincidence() -> None:
    assert find_leaking_field([(f"Id: {n}\nFrom: a{n}\nTo: b{n}\n\nText", TEAMS[n % 2]) for n in range(60)]) is None


def test_a_prompt_with_one_field_is_the_text_to_classify() -> None:
    assert find_leaking_field([(f"Ticket: {('pay', 'van')[n % 2]}\nText {n}", TEAMS[n % 2]) for n in range(60)]) is None


def test_a_leaking_field_is_a_warning_about_the_rows() -> None:
    pairs = mails({"billing": "money", "shipping": "vans"})
    rows = [TaskRow(prompt, team, n, raw=team) for n, (prompt, team) in enumerate(pairs)]
    findings = [f for f in row_findings(rows, format="label") if f.code == "gold-in-prompt"]
    assert [(f.severity, "Queue" in f.message) for f in findings] == [("warning", True)]
