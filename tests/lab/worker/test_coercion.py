"""Whatever environment code hands over becomes JSON that every reader accepts."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.worker.child.coercion import encode, number, text, to_json

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
)


@given(ANYTHING)
def test_anything_is_one_line_of_strict_json(value: Any) -> None:
    line = encode(to_json(value))
    assert line.count(b"\n") == 1
    assert json.loads(line, parse_constant=lambda name: name) == to_json(value)


def test_cycles_and_broken_objects_end() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

        __str__ = __repr__

    cycle: list[Any] = []
    cycle.append(cycle)
    assert "list" in json.dumps(to_json(cycle))
    assert to_json(Broken()) == "<Broken>"
    assert text(Broken()) == "<Broken>"


def test_huge_integers_and_long_texts_are_cut_and_say_so() -> None:
    assert to_json(1 << 20_000) == "<integer of 20001 bits>"
    assert to_json("x" * 300_000).endswith("… (+100000 characters)")


def test_lone_surrogates_do_not_reach_the_reader() -> None:
    assert to_json("a\ud800b") == "a?b"


def test_only_finite_numbers_are_numbers() -> None:
    assert number(math.nan) is None
    assert number("0.5") == 0.5
    assert number(None) is None
    assert number(True) == 1.0
