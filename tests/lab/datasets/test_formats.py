"""Answer formats of small columns in the exact shape of well-known datasets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.datasets.formats import (
    SURE_CONFIDENCE,
    AnswerContext,
    has_format,
    has_inline_options,
    recognise_format,
)

CHANCE = random.Random(3)


def column(values: list[Any], repeat: int = 1) -> list[tuple[int, Any]]:
    return list(enumerate(values * repeat))


KNOWN: list[tuple[str, str, list[tuple[int, Any]], AnswerContext]] = [
    (
        "gsm8k",
        "gsm8k_hash",
        column([f"{n}+1=<<{n}+1={n + 1}>>\n#### {n + 1:,}" for n in range(990, 1050)]),
        AnswerContext(),
    ),
    ("svamp", "numeric", column([f"{n}.0" for n in range(3, 90)]), AnswerContext("Answer")),
    ("gsm-plus with units", "numeric", column(["$1,200", "15%", "-3.5", "12 apples", "7"], 8), AnswerContext()),
    ("few rows of small numbers", "numeric", column([3, 5, 8, 2, 9, 4]), AnswerContext()),
    ("math", "boxed", column([rf"so \boxed{{\frac{{{n}}}{{7}}}}." for n in range(40)]), AnswerContext("solution")),
    ("math-500", "latex_math", column([r"\frac{1}{2}", "(3, \\pi)", "12", "x^2+1", r"\text{(B)}"], 8), AnswerContext()),
    ("boolq", "boolean", column([True, False, True], 20), AnswerContext()),
    ("strategyqa", "boolean", column(["yes", "no"], 20), AnswerContext()),
    ("cola without class names", "class_id", column([0, 1], 40), AnswerContext("label")),
    ("imdb", "class_id", column([0, 1], 40), AnswerContext("label", ("neg", "pos"))),
    ("arc", "choice_letter", column(list("ABCD"), 10), AnswerContext("answerKey", None, (4,))),
    ("mmlu", "choice_index", column([0, 1, 2, 3], 10), AnswerContext("answer", None, (4,))),
    ("hellaswag", "choice_index", column(["3", "0", "1", "2"], 10), AnswerContext("label", None, (4,))),
    ("winogrande", "choice_index", column(["1", "2"], 20), AnswerContext("answer", None, (2,))),
    ("letters without options", "label", column(list("ABCD"), 10), AnswerContext()),
    ("banking77", "label", column(["card lost", "pin change", "refund", "top up"], 30), AnswerContext("intent")),
    ("squad", "multi_answer", column([["in Paris", "Paris"], ["1889"]], 10), AnswerContext("answers.text")),
    ("nq", "multi_answer", column([{"text": ["a", "b"], "answer_start": [1, 2]}], 10), AnswerContext("answers")),
    ("trivia", "short_text", column([f"the river number {n}" for n in range(60)]), AnswerContext()),
    ("extraction", "json", column([f'{{"name": "a{n}", "age": {n}}}' for n in range(40)]), AnswerContext()),
    ("essays", "free_text", column([f"The {n}th essay goes on. " * 9 for n in range(40)]), AnswerContext()),
    ("mbpp", "code_tests", column([["assert f(1) == 2", "assert f(2) == 3"]], 20), AnswerContext("test_list")),
    ("bfcl", "tool_call", column([[{"area": {"base": [10], "height": [5]}}]], 20), AnswerContext("ground_truth")),
]


@pytest.mark.parametrize(("name", "expected", "values", "context"), KNOWN, ids=[k[0] for k in KNOWN])
def test_the_format_of_a_known_dataset_is_recognised(
    name: str, expected: str, values: list[tuple[int, Any]], context: AnswerContext
) -> None:
    found = recognise_format(values, context)
    assert found is not None
    assert (found.format, found.mixed) == (expected, False)


def test_indices_that_never_are_zero_and_reach_the_number_of_options_count_from_one() -> None:
    one = recognise_format(column(["1", "2"], 20), AnswerContext("answer", None, (2,)))
    zero = recognise_format(column(["0", "1"], 20), AnswerContext("answer", None, (2,)))
    assert one is not None
    assert zero is not None
    assert (one.index_base, zero.index_base) == (1, 0)


def test_a_column_without_any_answer_has_no_format() -> None:
    assert recognise_format(column(["", None, "n/a", "  ", []], 5)) is None


def test_empty_answers_do_not_count_against_a_format() -> None:
    found = recognise_format(column(["", "", "#### 12", None]))
    assert found is not None
    assert (found.format, found.confidence) == ("gsm8k_hash", 1.0)


def test_a_few_strays_are_counterexamples_and_many_make_the_column_mixed() -> None:
    good = [f"#### {n}" for n in range(97)]
    few = recognise_format(column([*good, "about ten or so, who knows", "later", "soon"]))
    many = recognise_format(column([*good[:70], *(f"it is a long story with {n} parts and no end" for n in range(30))]))
    assert few is not None
    assert many is not None
    assert (few.format, few.mixed, [row for row, _ in few.counterexamples]) == ("gsm8k_hash", False, [97, 98, 99])
    assert (many.format, many.mixed, many.confidence) == ("gsm8k_hash", True, 0.7)


def test_solutions_that_end_in_a_sum_are_no_formulas_to_be_repeated() -> None:
    found = recognise_format(column([f"{n} x 9 = {9 * n}\n84 + {9 * n} = {84 + 9 * n}" for n in range(60)]))
    assert found is not None
    assert (found.format, found.confidence) == ("gsm8k_hash", 0.9)


def test_formulas_with_letters_are_no_solutions() -> None:
    for formula in ("{n}x + {m}", "x + {n} = {m}", "x = {n} or x = -{m}", "x^2 - {n}x + {m} = 0"):
        found = recognise_format(column([formula.format(n=n + 2, m=2 * n + 3) for n in range(60)]))
        assert found is not None
        assert found.format == "latex_math", formula


def test_lettered_options_inside_of_prompts_are_seen() -> None:
    assert has_inline_options(["Which one?\nA) red\nB) blue", "And now? (A) one (B) two"])
    assert not has_inline_options(["A man walks. He asks: why?", "What is 2 + 2?"])


SINGLE: list[tuple[str, Any, bool]] = [
    ("tool_call", [{"name": "f", "arguments": {"a": 1}}], True),
    ("tool_call", [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}], True),
    ("tool_call", '[{"name": "f", "arguments": {}}]', True),
    ("tool_call", [{"f": {"a": [1, ""]}}, {"g": {}}], True),
    ("tool_call", [{"name": "Ada", "age": 3}], False),
    ("tool_call", [], False),
    ("code_tests", "\n\ndef check(candidate):\n    assert candidate(1) == 2", True),
    ("code_tests", '{"inputs": ["1"], "outputs": ["2"], "fn_name": "f"}', True),
    ("code_tests", '[{"input": "1", "output": "2", "testtype": "stdin"}]', True),
    ("code_tests", {"input": ["1"], "output": ["2"]}, True),
    ("code_tests", "They assert that it is so.", False),
    ("code_tests", '{"text": "an input", "n": 2}', False),
    ("latex_math", "3/4", True),
    ("latex_math", r"\frac{3}{4}", True),
    ("latex_math", "(1, 2)", True),
    ("latex_math", "x^2+1", True),
    ("latex_math", "2\\pi", True),
    ("latex_math", "12", True),
    ("latex_math", "2021-03-04", False),
    ("latex_math", "U2", False),
    ("latex_math", "the rest", False),
    ("numeric", "$1,200", True),
    ("numeric", "45%", True),
    ("numeric", 145.0, True),
    ("numeric", "3/4", False),
    ("multi_answer", {"spans": ["a", "b"], "types": ["span", "span"]}, True),
    ("multi_answer", [1, 2], False),
    ("multi_answer", {"text": []}, False),
    ("choice_letter", "[B]", True),
    ("choice_letter", "K", False),
]


@pytest.mark.parametrize(("format", "value", "has"), SINGLE, ids=[f"{s[0]} {s[1]!r}"[:60] for s in SINGLE])
def test_one_value_has_a_format_or_has_it_not(format: str, value: Any, has: bool) -> None:
    assert has_format(format, value) is has


def test_a_third_class_makes_yes_and_no_labels() -> None:
    found = recognise_format(column(["yes"] * 60 + ["no"] * 37 + ["maybe"] * 3), AnswerContext("final_decision"))
    assert found is not None
    assert found.format == "label"


@pytest.mark.parametrize(
    ("values", "context", "format", "rival"),
    [
        (["0", "1"] * 60, AnswerContext("answer"), "boolean", "class_id"),
        ([3, 4, 5, 6] * 60, AnswerContext("answer"), "numeric", "class_id"),
        ([0, 1, 2] * 100, AnswerContext("answer"), "class_id", "numeric"),
        (list("ABCD") * 20, AnswerContext("answer"), "label", "choice_letter"),
        ([f"a town on river {n}" for n in range(60)], AnswerContext("answer"), "short_text", "free_text"),
    ],
)
def test_where_another_format_fits_as_well_the_confidence_falls_and_the_other_is_named(
    values: list[Any], context: AnswerContext, format: str, rival: str
) -> None:
    found = recognise_format(column(values), context)
    assert found is not None
    assert (found.format, found.rival) == (format, rival)
    assert found.confidence < SURE_CONFIDENCE


def test_numbers_with_a_little_other_mathematics_are_read_by_the_wider_format() -> None:
    found = recognise_format(column([str(n) for n in range(97)] + [r"\frac{1}{2}", "2^5", "3/4"]))
    assert found is not None
    assert (found.format, found.share) == ("latex_math", 1.0)


def test_a_column_split_between_two_strict_formats_is_mixed_and_no_prose() -> None:
    found = recognise_format(
        column([f"so it is\n#### {n}" for n in range(50)] + [rf"so \boxed{{x_{n}}}" for n in range(50)])
    )
    assert found is not None
    assert found.mixed
    assert dict(found.also) == {"gsm8k_hash": 0.5, "boxed": 0.5}
    assert found.confidence == 0.0


def test_the_whole_column_is_looked_at_and_not_its_head() -> None:
    values = [f"#### {n}" for n in range(5000)] + [f"it is a story of {n} parts and has no end" for n in range(5000)]
    found = recognise_format(column(values))
    assert found is not None
    assert (found.mixed, found.share < 0.6) == (True, False)


@given(
    st.lists(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text())), max_size=30
    )
)
def test_any_column_is_recognised_or_empty_but_never_raises(values: list[Any]) -> None:
    found = recognise_format(column(values), AnswerContext("x", None, (4,)))
    assert found is None or 0.0 <= found.confidence <= 1.0
