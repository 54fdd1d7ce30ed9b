"""Tools that leave entries out without saying so."""

from __future__ import annotations

import json

import pytest

from prime_lab_mcp.lab.rewards.capped_lists import cut_lengths, entries_in

CUTS = {
    "hits[:5]": {5},
    "hits[0:PAGE]": {7},
    "hits[-5:]": {5},
    "list(islice(hits, 6))": {6},
    "heapq.nlargest(3, hits)": {3},
    "db.execute('SELECT * FROM orders LIMIT 9').fetchall()": {9},
    "hits[start:start + 5]": set(),
    "hits[:limit]": set(),
    "hits": set(),
}


@pytest.mark.parametrize("cut", CUTS)
def test_the_code_of_a_tool_names_the_length_of_its_lists(cut: str) -> None:
    source = (
        f"PAGE = 7\n\ndef find(text, start=0, limit=5):\n    return {cut}\n\ndef other(text):\n    return text[:80]\n"
    )
    assert cut_lengths(source, "shop_find") == CUTS[cut]


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (json.dumps([{"id": 1}, {"id": 2}]), 2),
        (json.dumps({"total": 9, "orders": [1, 2, 3]}), 3),
        (json.dumps({"a": [1], "b": [2]}), 0),
        ("Found:\n- one\n- two", 2),
        ("one\ntwo\n\nthree", 3),
        ("no order X", 0),
    ],
)
def test_entries_are_those_of_the_only_list(answer: str, number: int) -> None:
    assert entries_in(answer) == number
