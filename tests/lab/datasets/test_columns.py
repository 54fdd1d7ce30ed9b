"""Columns described, options found, and the prompt composed as the templates compose it."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.datasets.columns import describe_columns
from prime_lab_mcp.lab.datasets.guesses import any_gold_suffices
from prime_lab_mcp.lab.datasets.options import option_columns, options_of_row
from prime_lab_mcp.lab.datasets.row_values import compose_prompt, snake_case, value_at
from tests.support.assembled import assembled

TEMPLATE = assembled("numeric") / "numeric_template"


def template_columns() -> Any:
    spec = importlib.util.spec_from_file_location("columns_of_template", TEMPLATE / "columns.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COLUMNS = template_columns()
ASKED: list[tuple[str, Any, str]] = [
    ("text", "  What? ", "What?"),
    ("nothing", None, ""),
    ("turns", [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "a"),
    (
        "ShareGPT",
        [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}],
        "s\n\na",
    ),
    ("ends in a question", [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}], "b\n\nc"),
    ("one level deeper", [[{"role": "user", "content": "a"}], [{"role": "user", "content": "c"}]], "a\n\nc"),
    ("parts", [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}], "a"),
    ("paragraphs", ["one", " two"], "one\n\ntwo"),
    ("sentences", [["One.", " Two."], ["Three."]], "One. Two.\n\nThree."),
]


@pytest.mark.parametrize(("value", "text"), [a[1:] for a in ASKED], ids=[a[0] for a in ASKED])
def test_a_prompt_is_composed_as_the_templates_do_it(value: Any, text: str) -> None:
    row = {"q": value, "c": "About."}
    assert compose_prompt(row, ("q",)) == COLUMNS.question(row, ("q",)) == text
    assert compose_prompt(row, ("c", "q")) == COLUMNS.question(row, ("c", "q")) == f"About.\n\n{text}".strip()


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "a.b", "a.b.c"]),
        st.one_of(
            st.integers(),
            st.dictionaries(
                st.sampled_from(["b", "c"]),
                st.one_of(st.integers(), st.dictionaries(st.sampled_from(["c"]), st.integers())),
            ),
        ),
    ),
    st.sampled_from(["a", "a.b", "a.b.c", "b", "b.c", "x"]),
)
def test_a_path_leads_where_the_templates_find_it(row: dict[str, Any], path: str) -> None:
    assert value_at(row, path) == COLUMNS.value(row, path)


def test_names_are_compared_in_one_form() -> None:
    assert {snake_case(n) for n in ("answerKey", "Answer Key", "answer-key", "answer_key")} == {"answer_key"}


def test_columns_are_counted_one_level_into_objects() -> None:
    rows = [(n, {"a": {"x": n, "y": None}, "b": "two words" if n % 2 else ""}) for n in range(10)]
    found = {c.name: c for c in describe_columns(rows, {"b": {"dtype": "string"}})}
    assert list(found) == ["a", "a.x", "a.y", "b"]
    assert (found["a.x"].distinct, found["a.y"].null_rate, found["b"].null_rate, found["b"].words) == (
        10,
        1.0,
        0.5,
        2.0,
    )


def test_a_column_of_the_last_row_only_is_there_too() -> None:
    rows = [(n, {"q": "x"} | ({"late": 1} if n == 2999 else {})) for n in range(3000)]
    assert [c.name for c in describe_columns(rows, {})] == ["q", "late"]


FOUR = ["red", "green", "blue", "grey"]
OFFERS: list[tuple[str, dict[str, Any], tuple[str, ...], Any, int | None, int]] = [
    ("list and index", {"choices": FOUR}, ("choices",), 2, 0, 2),
    ("list and index from one", {"choices": FOUR}, ("choices",), "2", 1, 1),
    ("list and letter", {"options": FOUR}, ("options",), "(c)", None, 2),
    ("list and text", {"options": FOUR}, ("options",), " Blue", None, 2),
    ("list with letters", {"options": ["A) red", "B) green", "C) blue"]}, ("options",), "B", None, 1),
    ("object of texts and labels", {"choices": {"text": FOUR, "label": list("1234")}}, ("choices",), "3", None, 2),
    ("object by letter", {"options": dict(zip("ABCD", FOUR, strict=True))}, ("options",), "D", None, 3),
    (
        "objects",
        {"options": [{"key": k, "value": v} for k, v in zip("ABCD", FOUR, strict=True)]},
        ("options",),
        "B",
        None,
        1,
    ),
    ("one text", {"options": "a ) 1,000 , b ) 2,000 , c ) a lot"}, ("options",), "c", None, 2),
    ("one text, a line each", {"options": "red\ngreen\nblue"}, ("options",), "B", None, 1),
    ("JSON text", {"options": '["red", "green"]'}, ("options",), "green", None, 1),
    ("Python text", {"options": "['red', 'green']"}, ("options",), 0, 0, 0),
    ("a column each", dict(zip("ABCD", FOUR, strict=True)), tuple("ABCD"), "C", None, 2),
    ("numbered columns", {"option1": "red", "option2": "green"}, ("option1", "option2"), "2", 1, 1),
    ("inside of an object", {"q": {"choices": FOUR}}, ("q.choices",), 1, 0, 1),
]


@pytest.mark.parametrize(
    ("row", "columns", "gold", "base", "place"), [o[1:] for o in OFFERS], ids=[o[0] for o in OFFERS]
)
def test_options_are_found_and_the_right_one_is_named(
    row: dict[str, Any], columns: tuple[str, ...], gold: Any, base: int | None, place: int
) -> None:
    row = {"question": "Which?", "gold": gold, **row}
    assert option_columns([row]) == columns
    assert options_of_row(row, columns, "gold", base)[1] == place


@pytest.mark.parametrize("gold", [7, "7", -1, "Z", "violet", None, [1, 1, 0, 0], [0, 0, 0, 0], {"a": 1}])
def test_a_gold_that_names_no_option_has_no_place(gold: Any) -> None:
    assert options_of_row({"choices": FOUR, "gold": gold}, ("choices",), "gold", 0)[1] is None


def test_columns_that_merely_look_lettered_are_no_options() -> None:
    assert option_columns([{"a": 1, "c": 2, "answer_2": "x", "option3": "y"}]) == ()
    assert option_columns([{"choices": 4, "options": None}]) == ()


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        ("answers.text", [["x", "y"]], True),
        ("answers_spans.spans", [["x", "y"]], False),
        ("answer", [["Paris", "the city of Paris"]] * 3, True),
        ("entities", [["Ada", "Bo"]], False),
        ("answer", [["red", "blue"]] * 3, None),
        ("result", [["x"]] * 3, None),
    ],
)
def test_any_or_all_is_told_by_name_or_by_likeness_and_else_left_open(
    path: str, values: list[Any], expected: bool | None
) -> None:
    assert any_gold_suffices(path, values) is expected
