"""What a model copies from the last message of its environment."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.worker.child.copying import NUMBER, Piece, behind, piece, reply


@pytest.mark.parametrize(
    ("kind", "message", "copied"),
    [
        ("message", " I take 2.\n8 left. ", "I take 2.\n8 left."),
        ("line", "I take 2.\n8 left.\n", "8 left."),
        ("tag", "<take>1</take> or <take>3</take>!", "<take>3</take>"),
        ("tag", "x < 3 and y > 2", ""),
        ("quoted", "Say 'sesame', or \"mellon\".", "mellon"),
        ("quoted", "It's the player's turn.", ""),
        ("number", "Not -4 but 1,250.", "1,250"),
        ("word", "The word was crane (7).", "crane"),
    ],
)
def test_the_last_piece_of_a_kind_is_copied(kind: Piece, message: str, copied: str) -> None:
    assert piece(kind, message) == copied


def test_a_piece_gets_the_form_and_an_empty_message_gives_nothing() -> None:
    script = {"copy": "number", "before": "<take>", "after": "</take>"}
    said = [{"role": "user", "content": "I take 2. 8 left."}, {"role": "assistant", "content": "hm 5"}]
    assert reply(script, said) == "<take>8</take>"
    assert reply(script, [{"role": "user", "content": None}]) is None


@pytest.mark.parametrize(
    ("before", "until", "copied"),
    [
        ("ref ", NUMBER, "37"),
        ("shop 4 | ref ", NUMBER, "37"),
        ("ref ", "", "37 | open"),
        ("ref ", " |", "37"),
        ("| ", NUMBER, ""),
        ("", "", "ticket 9 | shop 4 | ref 37 | open"),
        ("no such words", "", ""),
    ],
)
def test_what_stands_at_a_place_is_copied(before: str, until: str, copied: str) -> None:
    assert behind("ticket 9 | shop 4 | ref 37 | open\nHow many?", before, until) == copied


def test_a_place_lies_in_the_prompt_or_in_what_came_back_since_the_first_turn() -> None:
    messages = [
        {"role": "system", "content": "is 1"},
        {"role": "user", "content": "is 2"},
        {"role": "assistant", "content": "is 3"},
        {"role": "tool", "content": "usage\nis 4"},
        {"role": "assistant", "content": "is 5"},
    ]
    copied = [reply({"copy": {"of": of, "behind": "is ", "until": NUMBER}}, messages) for of in ("prompt", "messages")]
    assert copied == ["2", "4"]
