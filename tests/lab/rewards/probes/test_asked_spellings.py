"""Answers as a prompt demands them."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.probes.asked_spellings import asked_spelling


@pytest.mark.parametrize(
    ("prompt", "answer", "asked"),
    [
        ("Give the time in ISO 8601, with Z for UTC.", "2023-07-01T09:15+00:00", "2023-07-01T09:15Z"),
        ("Round to two decimals.", "12.5", "12.50"),
        ("Write the amount with two decimals.", "12.346", "12.35"),
        ("Use a decimal comma (12,5).", "78.25", "78,25"),
        ("State the sum with a thousands separator, such as 1,250.", "48300", "48,300"),
        (
            "End with a line that gives the sum with thousands separators and two decimals, as in:\n\nSUM: 1,250.40",
            "-48300.75",
            "-48,300.75",
        ),
        ("Put the word in capitals.", "Oslo", "OSLO"),
        ("Give each name in lower case.", "Oslo, Rome", "oslo, rome"),
        ('{"who": string, "sum": number}', '{"who": "7", "sum": "12.5"}', '{"who": "7", "sum": 12.5}'),
        (
            "Keys: `nights` (integer), `paid` (boolean).",
            '{"nights": "3", "paid": "true"}',
            '{"nights": 3, "paid": true}',
        ),
    ],
)
def test_a_demand_of_the_prompt_is_followed(prompt: str, answer: str, asked: str) -> None:
    found = asked_spelling(prompt, answer)
    assert found is not None
    assert found.answer == asked


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("Give the time in ISO 8601.", "2023-07-01T09:15+00:00"),
        ("Give the time, with Z for UTC.", "2023-07-01T09:15+02:00"),
        ("Use up to two decimals.", "12.5"),
        ("Use a decimal comma (12,5).", "78"),
        ("State the sum with a thousands separator, such as 1,250.", "830.5"),
        ("State the sum with a thousands separator, such as 1,250.", "0483"),
        ("Write the amount with two decimals.", "17"),
        ("Write the amount with two decimals.", "12.345"),
        ("Do not write any word in capitals.", "Oslo"),
        ("Give the formula in lower case.", "\\FRAC{1}{2}"),
        ("Put the word in capitals.", "OSLO"),
        ('{"who": string, "sum": number}', '{"who": "7", "sum": 12.5}'),
        ('{"code": string}', '{"code": "0123"}'),
        ('{"code": integer}', '{"code": "0123"}'),
    ],
)
def test_what_is_not_demanded_without_doubt_is_left_alone(prompt: str, answer: str) -> None:
    assert asked_spelling(prompt, answer) is None
