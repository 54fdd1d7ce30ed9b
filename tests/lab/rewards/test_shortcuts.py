"""Where a text stands in the messages of several tasks, on plain values."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.copied_places import find_place


@pytest.mark.parametrize(
    ("texts", "targets", "behind"),
    [
        (["shop 1 | ref 37\n?", "shop 2 | ref 9\n?", "shop 3 | ref 122\n?"], ["37", "9", "122"], " | ref "),
        (["team = red\n", "team = teal\n", "team = blue\n"], ["red", "teal", "blue"], "team = "),
        (["(treasure='B4', 3)", "(treasure='A1', 3)", "(treasure='H8', 3)"], ["B4", "A1", "H8"], "(treasure='"),
        (["37", "9", "122"], ["37", "9", "122"], ""),
    ],
)
def test_the_words_before_a_text_are_found_where_they_are_the_same_in_all_tasks(
    texts: list[str], targets: list[str], behind: str
) -> None:
    place = find_place("messages", texts, targets)
    assert place is not None
    assert place.behind == behind


@pytest.mark.parametrize(
    ("texts", "targets"),
    [
        (["37 of 50 orders", "12 of 90 orders", "7 of 8 orders"], ["37", "90", "7"]),
        (["ref 37", "ref 37", "ref 37"], ["37", "37", "37"]),
        (["ref 37", "no number", "ref 5"], ["37", "8", "5"]),
        (["total 371", "total 12", "total 5"], ["37", "12", "5"]),
    ],
)
def test_no_place_is_claimed_where_a_text_stands_elsewhere_is_missing_or_is_always_the_same(
    texts: list[str], targets: list[str]
) -> None:
    assert find_place("messages", texts, targets) is None
