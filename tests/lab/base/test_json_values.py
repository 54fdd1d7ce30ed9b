"""Foreign values come out as the type that the code expects, or as nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.base.text import as_mapping, finite_or_none, positive_int_or_none, text_or_none

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=6,
)


@given(JSON)
def test_whatever_comes_in_has_its_type_going_out(value: object) -> None:
    text, number, whole = text_or_none(value), finite_or_none(value), positive_int_or_none(value)
    assert text is None or (text == value and text != "")
    assert number is None or (math.isfinite(number) and number == pytest.approx(value))
    assert whole is None or (whole == value and whole > 0 and not isinstance(whole, bool))
    assert as_mapping(value) == (value if isinstance(value, dict) else {})


@pytest.mark.parametrize("value", [True, "1", None, math.nan, math.inf, 10**400, [1]])
def test_what_is_no_finite_number_is_none(value: object) -> None:
    assert finite_or_none(value) is None


@pytest.mark.parametrize(("value", "whole"), [(3, 3), (0, None), (-1, None), (True, None), (3.0, None), ("3", None)])
def test_a_whole_number_is_one_from_1_on(value: object, whole: int | None) -> None:
    assert positive_int_or_none(value) == whole
