"""Skeletons of the caller's right replies: the same form with nothing in it."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.case_skeletons import (
    claims,
    crossed_probes,
    failing_program_probes,
    repeated_probes,
    skeleton_probes,
    skeletons,
    unchanged_probes,
)
from prime_lab_mcp.lab.rewards.observations import Expected
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import Row


@pytest.mark.parametrize(
    ("reply", "skeleton"),
    [
        ("Here:\n```python\nprint(input())\n```", "Here:\n```python\npass\n```"),
        ("```sql\nSELECT 1\n```", "```sql\n\n```"),
        ('```json\n{"rows": [1, 2]}\n```', '```json\n{"rows": []}\n```'),
        ("<queue>email</queue>\n<urgency>low</urgency>", "<queue></queue>\n<urgency></urgency>"),
        ('{"who": "Ada", "age": 36, "tags": ["x"]}', '{"who": "", "age": 0, "tags": []}'),
    ],
)
def test_the_form_of_a_reply_stays(reply: str, skeleton: str) -> None:
    assert list(skeletons(reply)) == [skeleton]


def test_a_number_of_a_json_reply_is_doubled_beside_its_empty_list() -> None:
    reply = '{"items": ["rice", "salt"], "weight": 12, "value": 90, "sure": true}'
    assert list(claims(f"So: {reply} is it.")) == [
        'So: {"items": [], "weight": 25, "value": 0, "sure": 0} is it.',
        'So: {"items": [], "weight": 0, "value": 181, "sure": 0} is it.',
    ]
    assert not list(claims('{"weight": 12, "value": 90}'))


def test_plain_text_has_no_skeleton() -> None:
    assert not list(skeletons("A short text about a lamp."))


def case(row: int, text: str, expected: Expected) -> tuple[Probe, Expected]:
    return Draft(Family.SUPPLIED, text, "case").probe(f"case/{row}", row), expected


def test_only_replies_that_are_expected_to_earn_much_are_emptied() -> None:
    placed = [case(0, "<a>1</a>", "high"), case(1, "<a>2</a>", "low"), case(2, "<a>3</a>", 1.0), case(2, "<a>4</a>", 1)]
    assert [(p.row, p.family, p.completion) for p in skeleton_probes(placed)] == [
        (0, Family.FORM_ALONE, "<a></a>"),
        (2, Family.FORM_ALONE, "<a></a>"),
    ]


def test_only_replies_that_are_expected_to_earn_much_are_repeated() -> None:
    [repeated] = repeated_probes([case(0, "- sturdy", "high"), case(1, "- weak", "low")])
    assert (repeated.row, repeated.family, repeated.completion.split("\n")) == (
        0,
        Family.REPEATED_GOLD,
        ["- sturdy"] * 50,
    )


def rows(*prompts: str) -> list[Row]:
    return [Row(n, str(n), ({"role": "user", "content": text},), None, None, {}) for n, text in enumerate(prompts)]


def test_right_replies_are_given_to_other_tasks() -> None:
    tasks = rows(*(f"Plan trip {n}." for n in range(5)))
    placed = [case(n, f"plan {n}", "high") for n in range(3)]
    crossed = crossed_probes(placed, tasks)
    assert {(p.family, p.row, p.completion) for p in crossed} == {
        (Family.CROSS, row, f"plan {n}") for row in (3, 4) for n in range(3)
    }


def test_fewer_than_three_right_replies_and_equal_prompts_show_nothing() -> None:
    placed = [case(n, f"plan {n}", "high") for n in range(3)]
    assert not crossed_probes(placed[:2], rows("a", "b", "c", "d"))
    assert not crossed_probes(placed, rows(*["Write anything."] * 6))


def test_right_programs_are_changed_to_fail_on_nearly_every_input() -> None:
    right = case(3, "Here:\n```python\ndef twice(xs):\n    return xs + xs\n```\nDone.", "high")
    raises, silent = failing_program_probes([right, case(4, "```python\ndef f(x):\n    return 1\n```", "low")])
    assert {raises.family, silent.family} == {Family.PROGRAM_HACK}
    assert raises.completion == (
        "Here:\n```python\ndef twice(xs):\n    if xs:\n        raise ValueError()\n    return xs + xs\n```\nDone."
    )
    assert "return None" in silent.completion
    assert not failing_program_probes([case(3, "```python\nprint(int(input()) * 2)\n```", "high")])


NOTES = [
    f"The ferry to the {place} leaves the the old pier at noon and takes no dgos, but bicycles travel free of charge."
    for place in ("lighthouse", "castle", "monastery", "market")
]


def mended(note: str) -> str:
    return note.replace("the the", "the").replace("dgos", "dogs")


def test_a_text_that_right_replies_change_a_little_is_tried_as_it_is() -> None:
    placed = [case(n, mended(note), "high") for n, note in enumerate(NOTES[:3])]
    tried = {p.row: p.completion for p in unchanged_probes(placed, rows(*NOTES))}
    assert tried == dict(enumerate(NOTES)), "the task without a case too, since prompts are the texts as a whole"
    asked = [f"Mend the mistakes in this note.\n\n{note}" for note in NOTES]
    tried = {p.row: p.completion for p in unchanged_probes(placed, rows(*asked))}
    assert tried == dict(enumerate(NOTES[:3]))


def test_prompts_that_right_replies_do_not_repeat_are_no_text_to_be_changed() -> None:
    placed = [case(n, f"It leaves at noon for the {n}.", "high") for n in range(3)]
    assert unchanged_probes(placed, rows(*NOTES)) == []
    placed = [*(case(n, mended(note), "high") for n, note in enumerate(NOTES[:3])), case(3, "By bicycle.", "high")]
    assert unchanged_probes(placed, rows(*NOTES)) == []
