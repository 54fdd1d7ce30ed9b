"""Answer formats of small columns in the exact shape of well-known datasets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.datasets.formats import Context, has_inline_options, recognise

CHANCE = random.Random(3)


def column(values: list[Any], repeat: int = 1) -> list[tuple[int, Any]]:
    return list(enumerate(values * repeat))


KNOWN: list[tuple[str, str, list[tuple[int, Any]], Context]] = [
    ("gsm8k", "gsm8k_hash", column([f"{n}+1=<<{n}+1={n + 1}>>\n#### {n + 1:,}" for n in range(990, 1050)]), Context()),
    ("svamp", "numeric", column([f"{n}.0" for n in range(3, 90)]), Context("Answer")),
    ("gsm-plus with units", "numeric", column(["$1,200", "15%", "-3.5", "12 apples", "7"], 8), Context()),
    ("few rows of small numbers", "numeric", column([3, 5, 8, 2, 9, 4]), Context()),
    ("math", "boxed", column([rf"so \boxed{{\frac{{{n}}}{{7}}}}." for n in range(40)]), Context("solution")),
    ("math-500", "latex_math", column([r"\frac{1}{2}", "(3, \\pi)", "12", "x^2+1", r"\text{(B)}"], 8), Context()),
    ("boolq", "boolean", column([True, False, True], 20), Context()),
    ("strategyqa", "boolean", column(["yes", "no"], 20), Context()),
    ("cola without class names", "class_id", column([0, 1], 40), Context("label")),
    ("imdb", "class_id", column([0, 1], 40), Context("label", ("neg", "pos"))),
    ("arc", "choice_letter", column(list("ABCD"), 10), Context("answerKey", None, (4,))),
    ("mmlu", "choice_index", column([0, 1, 2, 3], 10), Context("answer", None, (4,))),
    ("hellaswag", "choice_index", column(["3", "0", "1", "2"], 10), Context("label", None, (4,))),
    ("winogrande", "choice_index", column(["1", "2"], 20), Context("answer", None, (2,))),
    ("letters without options", "label", column(list("ABCD"), 10), Context()),
    ("banking77", "label", column(["card lost", "pin change", "refund", "top up"], 30), Context("intent")),
    ("squad", "multi_answer", column([["in Paris", "Paris"], ["1889"]], 10), Context("answers.text")),
    ("nq", "multi_answer", column([{"text": ["a", "b"], "answer_start": [1, 2]}], 10), Context("answers")),
    ("trivia", "short_text", column([f"the river number {n}" for n in range(60)]), Context()),
    ("extraction", "json", column([f'{{"name": "a{n}", "age": {n}}}' for n in range(40)]), Context()),
    ("essays", "free_text", column([f"The {n}th essay goes on. " * 9 for n in range(40)]), Context()),
    ("mbpp", "code_tests", column([["assert f(1) == 2", "assert f(2) == 3"]], 20), Context("test_list")),
    ("bfcl", "tool_call", column([[{"area": {"base": [10], "height": [5]}}]], 20), Context("ground_truth")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected", "values", "context"), KNOWN, ids=[k[0] for k in KNOWN])
def test_the_format_of_a_known_dataset_is_recognised(
    name: str, expected: str, values: list[tuple[int, Any]], context: Context
) -> None:
    found = recognise(values, context)
    assert found is not None
    assert (found.format, found.mixed) == (expected, False)


def test_indices_that_never_are_zero_and_reach_the_number_of_options_count_from_one() -> None:
    one = recognise(column(["1", "2"], 20), Context("answer", None, (2,)))
    zero = recognise(column(["0", "1"], 20), Context("answer", None, (2,)))
    assert one is not None
    assert zero is not None
    assert (one.index_base, zero.index_base) == (1, 0)


def test_a_column_without_any_answer_has_no_format() -> None:
    assert recognise(column(["", None, "n/a", "  ", []], 5)) is None


def test_empty_answers_do_not_count_against_a_format() -> None:
    found = recognise(column(["", "", "#### 12", None]))
    assert found is not None
    assert (found.format, found.confidence) == ("gsm8k_hash", 1.0)


def test_a_few_strays_are_counterexamples_and_many_make_the_column_mixed() -> None:
    good = [f"#### {n}" for n in range(97)]
    few = recognise(column([*good, "about ten or so, who knows", "later", "soon"]))
    many = recognise(column([*good[:70], *(f"it is a long story with {n} parts and no end" for n in range(30))]))
    assert few is not None
    assert many is not None
    assert (few.format, few.mixed, [row for row, _ in few.counterexamples]) == ("gsm8k_hash", False, [97, 98, 99])
    assert (many.format, many.mixed, many.confidence) == ("gsm8k_hash", True, 0.7)


def test_lettered_options_inside_of_prompts_are_seen() -> None:
    assert has_inline_options(["Which one?\nA) red\nB) blue", "And now? (A) one (B) two"])
    assert not has_inline_options(["A man walks. He asks: why?", "What is 2 + 2?"])


@given(
    st.lists(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text())), max_size=30
    )
)
def test_any_column_is_recognised_or_empty_but_never_raises(values: list[Any]) -> None:
    found = recognise(column(values), Context("x", None, (4,)))
    assert found is None or 0.0 <= found.confidence <= 1.0
