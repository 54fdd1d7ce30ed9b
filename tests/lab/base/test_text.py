"""Foreign text is shown quoted, cut, escaped and without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.base.text import quote, redact


def test_control_bidi_and_zero_width_characters_are_escaped() -> None:
    assert quote("a\x1b[31m\u202e\u200b\nb") == '"a\\x1b[31m\\u202e\\u200b\\nb"'


def test_long_text_is_cut_and_the_rest_counted() -> None:
    assert quote("x" * 1000) == '"' + "x" * 300 + '… (+700 characters)"'


def test_quotes_cannot_end_the_quotation() -> None:
    assert quote('a" and then') == '"a\\" and then"'


@pytest.mark.parametrize("secret", ["sk-abcdefgh1234", "hf_abcdefghijkl", "Bearer abcdef123456", "pit_abcdefgh99"])
def test_credentials_are_removed(secret: str) -> None:
    assert secret.split()[-1] not in redact(f"error: {secret} was refused")


def test_values_of_secret_named_variables_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "plainlookingvalue")
    assert "plainlookingvalue" not in redact("it said plainlookingvalue twice: plainlookingvalue")


PARTS = st.sampled_from(
    [
        "sk-",
        "SK-",
        "hf_",
        "Hf_",
        "pit_",
        "gho_",
        "GHR_",
        "Bearer ",
        "bearer ",
        "BEARER  ",
        "api_key=",
        "Api_key=",
        "abcdefghijklmnop",
        "12345678",
        " ",
        "\n",
        "&",
        "\u212a",
        "\u017f",
        "\u0130",
        "\u0131",
        "\u00e9",
        "s",
        "k",
        "-",
    ]
)


@given(st.lists(PARTS, max_size=6).map("".join))
def test_looking_for_the_marks_first_misses_no_credential(text: str) -> None:
    every_mark = " _ - . = :"
    assert redact(text + every_mark) == redact(text) + every_mark
