"""Single golds: empty ones, numbers, boxes; and that the template reads numbers as the inspection does."""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from decimal import Decimal
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.datasets import golds
from tests.support.assembled import assembled

TEMPLATE = assembled("numeric")


@pytest.fixture(scope="module")
def numbers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("numbers_of_template", TEMPLATE / "numeric_template" / "numbers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,200", "1200"),
        ("$1,200.50", "1200.50"),
        ("-$5", "-5"),
        ("−3", "-3"),
        ("12 apples", "12"),
        ("15%", "15"),
        ("1e20", "1E+20"),
        (".5", "0.5"),
        ("7.", "7"),
        ("60 km per hour", "60"),
    ],
)
def test_numbers_are_read_through_separators_currency_and_units(text: str, expected: str) -> None:
    assert golds.number_in(text) == Decimal(expected)


@pytest.mark.parametrize(
    "text",
    ["", "1,2", "40+2", "2^5", "3/4", "nan", "inf", "1e999", "5 million", "42²", "1 2 3", "sqrt(42)", "x", "--4", "5k"],
)
def test_what_is_not_one_number_is_none(text: str) -> None:
    assert golds.number_in(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12*8=96. 96-21=75 remain. The answer is 75", "75"),
        ("It covers 28 km.\nAnswer: 28 km", "28 km"),
        ("Thus 2 and 3.\n**Final answer:** 1,205.", "1,205"),
        ("so the answer is $3.50.", "$3.50"),
        ("Answer: 3\n#### 4", "4"),
        ("The answer is 7, or 8 if it rains", None),
        ("The answer is written on page 7", None),
        ("The answer is 75. But check it", None),
        ("Answers are 75", None),
    ],
)
def test_a_worked_solution_ends_in_a_mark_or_states_its_number_last(
    numbers: ModuleType, text: str, expected: str | None
) -> None:
    assert golds.worked_answer(text) == expected
    assert numbers.gold_of(text) == (None if expected is None else golds.number_in(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60 - 3 = 57. So in the end it is 57.", "57"),
        ("1 + 1 = 2\nTherefore: £1,062.50", "£1,062.50"),
        ("60 - 3 = 57. 57", "57"),
        ("60 - 3 = 57. That makes 57, as was asked", "57"),
        ("60 - 3 = 57. Answer: 57 places", "57 places"),
        ("3 - 60. So it is -57.", "-57"),
        ("So it is 57.", None),
        ("60 - 3 = 57. So 57 of 60 are taken.", None),
        ("60 - 3 = 57. So it is 57 million.", None),
        ("60 - 3 = 57. So it is 1/57.", None),
        ("60 - 3 = 57. Nobody knows.", None),
        ("10 x 9 = 90\n84 + 90 = 174", "174"),
        ("84 + 90 = 174", "174"),
        ("One day is 124. Five days: 124 x 5 gives 620", "620"),
        ("Each has 4. So that is (3 + 4) * 2 = 14 pens.", "14"),
        ("They take 1,200 - $30 = $1,170.", "$1,170"),
        ("3 + 4 = 7 million", None),
        ("x + 2 - 5 = 1", None),
        ("x^2 - 5x + 6 = 0", None),
        ("x = 3 or x = -2", None),
        ("3 + 4 = 7 or 8", None),
    ],
)
def test_a_solution_closes_with_the_only_number_of_its_last_sentence_or_with_the_result_of_a_sum(
    numbers: ModuleType, text: str, expected: str | None
) -> None:
    assert golds.closing_number(text) == expected
    assert numbers.gold_of(text) == (None if expected is None else golds.number_in(expected))


def test_the_symbol_of_sodium_is_an_answer() -> None:
    assert golds.is_empty("NA")
    assert golds.is_empty("na")
    assert not golds.is_empty("Na")


def test_the_last_balanced_box_counts() -> None:
    assert golds.boxed_content(r"\boxed{1} then \boxed{\frac{a}{b}}.") == r"\frac{a}{b}"
    assert golds.boxed_content(r"\boxed{1") is None


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\fbox{7}", "7"),
        (r"\boxed {7}", "7"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\boxed{3} or \boxed{4", "3"),
        (r"\boxed{\left\{ 1, 2 \right.}", r"\left\{ 1, 2 \right."),
        (r"\boxed{\textbf{(B) }6}", r"\textbf{(B) }6"),
        (r"\boxed{}", None),
        (r"\boxed 7", None),
        ("7", None),
    ],
)
def test_boxes_are_read_through_nesting_escapes_and_what_is_cut_off(text: str, content: str | None) -> None:
    assert golds.boxed_content(text) == content


@given(st.text(alphabet="aB ß\u00a0\t\n\u2009ﬁ", max_size=12))
def test_plain_text_is_normalised_as_all_text_is(text: str) -> None:
    folded = unicodedata.normalize("NFKC", text).casefold()
    assert golds.normalised_text(text) == re.sub(r"\s+", " ", folded).strip()


def test_sentinels_are_empty_and_labels_are_not() -> None:
    assert all(map(golds.is_empty, [None, " ", "N/A", "[]", [], {}, "proof"]))
    assert not any(map(golds.is_empty, [0, False, "none", "0", ["a"]]))


@given(st.one_of(st.text(alphabet="0123456789.,-+$%eE kmapples−", max_size=14), st.decimals(allow_nan=False).map(str)))
def test_the_template_reads_every_gold_that_the_inspection_calls_readable(text: str) -> None:
    spec = importlib.util.spec_from_file_location("numbers_again", TEMPLATE / "numeric_template" / "numbers.py")
    assert spec is not None
    assert spec.loader is not None
    module = _TEMPLATE_NUMBERS.setdefault("it", importlib.util.module_from_spec(spec))
    if not hasattr(module, "read"):
        spec.loader.exec_module(module)
    found = golds.number_in(text)
    if found is not None:
        assert module.read(text) == found
        assert module.show(found) == golds.canonical_number(found)


_TEMPLATE_NUMBERS: dict[str, ModuleType] = {}


@pytest.mark.parametrize(
    ("given_", "gold", "expected"),
    [
        ("1200.0", "1200", True),
        ("10000001", "10000000", False),
        ("0.333333333", "0.3333333333", True),
        ("66.67", "66.66666666666667", True),
        ("66.7", "66.66666666666667", False),
        ("67", "66.66666666666667", False),
        ("3.1", "3.14", False),
        ("0.00", "0.0001234", False),
        ("-5", "5", False),
        ("66." + "6" * 40, "66.66666666666667", True),
    ],
)
def test_numbers_are_compared_exactly_or_within_what_rounding_explains(
    numbers: ModuleType, given_: str, gold: str, expected: bool
) -> None:
    assert numbers.same(Decimal(given_), Decimal(gold)) is expected
