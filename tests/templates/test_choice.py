"""The choice template's comparison of answers and its reading of options, without verifiers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.templates.loading import modules

M = modules("choice", "answers", "shape")
answers, shape = M["answers"], M["shape"]


@pytest.mark.parametrize("said", ["B", "b", "(B)", "B.", "B)", " B ", "**B**", "B) Paris", "(b) the text", "Option B"])
def test_ways_to_name_the_right_option_score(said: str) -> None:
    assert answers.score(f"I think so. <answer>{said}</answer> Done.", "B") == 1.0


@pytest.mark.parametrize(
    "said",
    ["A", "A B C D", "B or C", "B, C", "B) or C)", "B) x C) y", "not B", "BC", "Bern", "B Paris", "", "2", "A) not B)"],
)
def test_other_options_and_several_at_once_do_not_score(said: str) -> None:
    assert answers.score(f"<answer>{said}</answer>", "B") == 0.0


@pytest.mark.parametrize(
    "reply",
    [
        "B",
        "<answer>B",
        "<answer>A</answer> no, <answer>B</answer>",
        "<answer>B</answer> no, <answer>A</answer>",
        "<think><answer>B</answer>",
        "<think><answer>B</answer></think> <answer>A</answer>",
        "<answer><answer>B</answer></answer>",
    ],
)
def test_a_reply_without_one_closed_tag_outside_of_thoughts_earns_nothing(reply: str) -> None:
    assert answers.score(reply, "B") == 0.0


def test_options_are_shown_as_lettered_lines_up_to_ten() -> None:
    row = {"question": "Which?", "options": [str(n) for n in range(10)], "answer": "J"}
    assert answers.ask(row).splitlines()[0::11] == ["Which?", "J) 9"]
    assert answers.gold_of(row) == "J"


def test_a_letter_beyond_the_options_is_no_gold() -> None:
    assert answers.gold_of({"question": "Which?", "options": ["x", "y"], "answer": "C"}) is None


def test_options_that_stand_in_the_question_are_not_shown_twice() -> None:
    assert answers.ask({"question": "Which?\n(A) x\n(B) y", "options": [], "answer": "B"}) == "Which?\n(A) x\n(B) y"


CAPITALS = ["Oslo", "Rome", "Bern", "Lima"]
ARC = {"text": CAPITALS, "label": ["A", "B", "C", "D"]}
ROWS: tuple[tuple[str, dict[str, Any], tuple[str, ...], int | None, str | None], ...] = (
    ("MMLU", {"choices": CAPITALS, "answer": 1}, ("choices",), 0, "B"),
    ("MMLU-Pro", {"options": CAPITALS, "answer": "B"}, ("options",), None, "B"),
    ("ARC", {"choices": ARC, "answer": "B"}, ("choices",), None, "B"),
    ("ARC by number", {"choices": ARC | {"label": ["1", "2", "3", "4"]}, "answer": "2"}, ("choices",), None, "B"),
    ("hellaswag", {"endings": CAPITALS, "answer": "1"}, ("endings",), 0, "B"),
    ("hellaswag test, no label", {"endings": CAPITALS, "answer": ""}, ("endings",), 0, None),
    ("winogrande", {"option1": "Oslo", "option2": "Rome", "answer": "2"}, ("option1", "option2"), 1, "B"),
    ("medmcqa", {**dict(zip("abcd", CAPITALS, strict=True)), "answer": 1}, ("a", "b", "c", "d"), 0, "B"),
    ("fewer than others", {"a": "Oslo", "b": "Rome", "c": None, "answer": "B"}, ("a", "b", "c"), None, "B"),
    ("aqua", {"options": ["A)Oslo", "B)Rome", "C)Bern", "D)Lima"], "answer": "B"}, ("options",), None, "B"),
    ("aqua as text", {"options": "['A)Oslo', 'B)Rome', 'C)Bern', 'D)Lima']", "answer": "B"}, ("options",), None, "B"),
    ("math_qa", {"options": "a ) Oslo , b ) Rome , c ) Bern , d ) Lima", "answer": "b"}, ("options",), None, "B"),
    ("MedQA", {"options": dict(zip("ABCD", CAPITALS, strict=True)), "answer": "B"}, ("options",), None, "B"),
    (
        "list of objects",
        {"o": [{"key": k, "text": t} for k, t in zip("ABCD", CAPITALS, strict=True)], "answer": "B"},
        ("o",),
        None,
        "B",
    ),
    ("gold as text", {"choices": CAPITALS, "answer": "rome"}, ("choices",), None, "B"),
    ("gold as text of none", {"choices": CAPITALS, "answer": "Cairo"}, ("choices",), None, None),
    ("boxed letter", {"choices": CAPITALS, "answer": r"\boxed{B}"}, ("choices",), None, "B"),
    ("index out of range", {"choices": CAPITALS, "answer": 4}, ("choices",), 0, None),
    ("unlabelled", {"choices": CAPITALS, "answer": -1}, ("choices",), 0, None),
    ("right text twice", {"choices": ["Rome", "Rome", "Bern"], "answer": "A"}, ("choices",), None, None),
    ("eleven options", {"choices": [str(n) for n in range(11)], "answer": "B"}, ("choices",), None, None),
)


@pytest.mark.parametrize(("row", "columns", "base", "letter"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_rows_of_public_datasets_become_options_in_their_order_and_a_letter(
    row: dict[str, Any],
    columns: tuple[str, ...],
    base: int | None,
    letter: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shape, "OPTION_COLUMNS", columns)
    monkeypatch.setattr(shape, "INDEX_BASE", base)
    found = shape.canonical({"question": "q", **row})
    if letter is None:
        assert found is None
    else:
        assert found["answer"] == letter
        assert found["options"] == CAPITALS[: len(found["options"])]


@pytest.mark.parametrize(
    ("columns", "answer", "row"),
    [
        (("t.choices",), "marks", {"t": {"choices": CAPITALS}, "marks": [1, 0, 0, 0]}),  # TruthfulQA
        (("d1", "d2", "d3", "right"), "right", {"right": "Oslo", "d1": "Rome", "d2": "Bern", "d3": "Lima"}),  # SciQ
    ],
)
def test_a_right_option_that_has_one_place_in_all_rows_is_shown_in_another(
    columns: tuple[str, ...], answer: str, row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape, "OPTION_COLUMNS", columns)
    monkeypatch.setattr(shape, "ANSWER_COLUMN", answer)
    found = shape.canonical({"question": "q", **row})
    assert found is not None
    assert sorted(found["options"]) == sorted(CAPITALS)
    assert found["options"]["ABCD".index(found["answer"])] == "Oslo"
    assert found["options"][0] != "Oslo"
    assert found["options"][-1] != "Oslo"


def test_commas_inside_of_options_written_as_one_text_do_not_end_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "OPTION_COLUMNS", ("options",))
    row = {"question": "q", "options": "a ) rs . 1,200 , b ) 27.675 , c ) none of these", "answer": "c"}
    assert shape.canonical(row)["options"] == ["rs . 1,200", "27.675", "none of these"]


@pytest.mark.parametrize("answer", ["B", "(B)", "Rome"])
def test_options_in_the_question_need_no_column(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "OPTION_COLUMNS", ())
    asked = "Which is in Italy?\n(A) Oslo\n(B) Rome\n(C) Bern"
    assert shape.canonical({"question": asked, "answer": answer}) == {"question": asked, "options": [], "answer": "B"}


def test_canonical_rows_stay_as_they_are() -> None:
    row = {"question": "q", "options": CAPITALS, "answer": "D"}
    assert shape.canonical(row) == row
