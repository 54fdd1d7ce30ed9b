"""Values that the text around them names as a credential count only where they look random."""

from __future__ import annotations

import base64

import pytest

from prime_lab_mcp.lab.base.named_credentials import find_named

RANDOM = "8fK2mQ9zX4vB7nL1pR6t"
WORDS = "the_password_of_a_user_here"
PAIR = base64.b64encode(f"user:{RANDOM}".encode()).decode()
OTHER = base64.b64encode(f"user-{RANDOM}".encode()).decode()
PLACES = (
    "Authorization: Bearer {}",
    "https://x.example/?token={}",
    "https://{}@x.example/",
    "login me password {}",
    "api_key = '{}'",
)


@pytest.mark.parametrize("place", PLACES)
def test_a_random_value_at_a_place_for_keys_is_a_credential_and_words_are_none(place: str) -> None:
    (found,) = find_named(place.format(RANDOM))
    assert place.format(RANDOM)[found.start : found.end] == RANDOM
    assert list(find_named(place.format(WORDS))) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (f"Authorization: Basic {PAIR}", 1),
        (f"Authorization: Basic {OTHER}", 0),
        (f"Authorization: Basic {RANDOM}A", 0),
        (f"123456789:AA{RANDOM}8fK2mQ9zX4vB7", 1),
        (f"123456789:AA{'a' * 33}", 0),
        ("3f9a1c7e5b2d8046fa1e9c3b7d5208ac-us1", 1),
    ],
    ids=["pair", "no pair", "no base 64", "bot", "no bot", "mail"],
)
def test_a_form_of_one_service_counts_where_its_value_fits(text: str, number: int) -> None:
    assert len(list(find_named(text))) == number


@pytest.mark.parametrize(
    "value",
    ["3f9a1c7e5b2d8046fa1e9c3b7d5208ac", "AAAAAAAAAAAAAAAAAAAA1111", "layer_12_weights_345", "YOUR_API_KEY_12345678"],
)
def test_the_value_of_a_named_key_is_told_from_identifiers(value: str) -> None:
    found = list(find_named(f"api_key = '{value}'"))
    assert len(found) == (1 if value.startswith("3f9a") else 0)
