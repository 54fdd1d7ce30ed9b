"""The template short_text: which spellings are the same answer, and how rows of public datasets are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.authoring.template import set_constants
from tests.templates.loading import modules

_LOADED = modules("short_text", "answers", "shape", "texts")
answers, shape, texts = _LOADED["answers"], _LOADED["shape"], _LOADED["texts"]


def paid(said: str, gold: str | list[str]) -> float:
    return answers.score(f"I look it up. <answer>{said}</answer>", gold)


@pytest.mark.parametrize(
    ("said", "gold"),
    [
        ("the Eiffel Tower.", "Eiffel Tower"),
        ("EIFFEL  tower", "Eiffel Tower"),
        ("Beyonce", "Beyoncé"),
        ("O'Shea", "O\u2019Shea"),
        ("rock & roll", "Rock and Roll"),
        ("twenty one", "twenty-one"),
        ("e-mail", "email"),
        ("1000", "1,000"),
        ('"Hamlet"', "Hamlet"),
        ("President of the United States", "president of United States"),
        ("zero\u200bwidth", "zerowidth"),
        ("ＡＢＣ", "abc"),
        ("x < 5", "x < 5"),
        ("?", "?"),
    ],
)
def test_the_same_answer_in_another_spelling_is_right(said: str, gold: str) -> None:
    assert paid(said, gold) == 1.0


@pytest.mark.parametrize(
    ("said", "gold"),
    [
        ("the Eiffel Tower in Paris", "Eiffel Tower"),
        ("Tower", "Eiffel Tower"),
        ("not Paris", "Paris"),
        ("Paris or London", "Paris"),
        ("5", "-5"),
        ("35", "3.5"),
        ("1230", "12:30"),
        ("12", "1/2"),
        ("vitamin", "vitamin A"),
        ("100", "1,000"),
        ("a", "the"),
        ("कम", "काम"),
        ("Paris " * 100, "Paris"),
        ("", "Paris"),
    ],
)
def test_another_answer_is_wrong_however_near(said: str, gold: str) -> None:
    assert paid(said, gold) == 0.0


def test_any_of_several_golds_is_right_but_not_all_of_them_together() -> None:
    golds = ["March 1904", "in March 1904"]
    assert [paid(said, golds) for said in ("March 1904", "in march, 1904", "March 1904 / in March 1904")] == [1, 1, 0]


@pytest.mark.parametrize(
    "reply",
    [
        "Paris",
        "<answer>Paris",
        "Paris</answer>",
        "<answer><answer>Paris</answer></answer>",
        "<answer>Paris</answer><answer>London</answer>",
        "<think><answer>Paris</answer></think>",
        "<think><answer>Paris</answer>",
        "<answer> </answer>",
        "<answer>...</answer> <answer>",
        "",
    ],
)
def test_a_reply_without_one_readable_answer_earns_nothing_at_all(reply: str) -> None:
    assert (answers.score(reply, "Paris"), answers.in_form(reply)) == (0.0, False)


def test_a_thought_is_passed_over_and_repetition_counts_once() -> None:
    assert answers.score("<think><answer>London</answer></think><answer>Paris</answer>", "Paris") == 1.0
    assert answers.score("<answer>Paris</answer>" * 50, "Paris") == 1.0


@pytest.fixture
def all_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANY_OF", False)
    monkeypatch.setattr(shape, "ANY_OF", False)


@pytest.mark.usefixtures("all_asked")
@pytest.mark.parametrize(
    ("said", "score"),
    [
        ("Ann\nBo\nCy", 1),
        ("- cy\n- ann\n- bo", 1),
        ("Cy, Bo, Ann", 1),
        ("Ann; Bo; Cy", 1),
        ('["Ann", "Bo", "Cy"]', 1),
        ("Ann\nBo", 0),
        ("Ann\nBo\nBo\nCy", 0),
        ("Ann\nBo\nCy\nDi", 0),
        ("Ann Bo Cy", 0),
    ],
)
def test_where_all_golds_are_asked_for_each_must_come_once_in_any_order(said: str, score: float) -> None:
    assert paid(said, ["Ann", "Bo", "Cy"]) == score


def test_the_fitted_constant_decides_what_is_asked_for() -> None:
    source = Path(answers.__file__).read_text(encoding="utf-8")
    said = {}
    for any_of in (True, False):
        space: dict[str, object] = {}
        exec(set_constants(source, {"ANY_OF": any_of}), space)
        said[any_of] = space["FORMAT"]
    assert "<answer>ANSWER</answer>" in said[True]
    assert "all answers, one on each line" in said[False]


def test_rows_of_squad_trivia_qa_nq_drop_and_musique_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(column: str, row: dict[str, object]) -> object:
        monkeypatch.setattr(shape, "ANSWER_COLUMN", column)
        found = shape.canonical({"question": "Who?", **row})
        return None if found is None else found["answer"]

    squad = {"answers": {"text": ["Denver Broncos", "the Denver Broncos", "Broncos"], "answer_start": [1, 1, 1]}}
    assert read("answers.text", squad) == read("answers", squad) == ["Denver Broncos", "Broncos"]
    assert read("answers.text", {"answers": {"text": [], "answer_start": []}}) is None
    trivia = {"answer": {"value": "Sinclair Lewis", "aliases": ["Harry Lewis"], "normalized_aliases": ["harry lewis"]}}
    assert read("answer", trivia) == read("answer.value", trivia) == ["Sinclair Lewis", "Harry Lewis"]
    assert read("answer", {"answer": ["14 December 1972 UTC", "December 1972"]}) == [
        "14 December 1972 UTC",
        "December 1972",
    ]
    assert read("answers_spans.spans", {"answers_spans": {"spans": ["Bo", "Cy"], "types": ["span", "span"]}}) == [
        "Bo",
        "Cy",
    ]
    assert read("answer", {"answer": "Ada", "answer_aliases": ["Ada L."]}) == ["Ada", "Ada L."]
    assert read("possible_answers", {"possible_answers": '["politician", "pol"]'}) == ["politician", "pol"]
    assert read("answer", {"answer": "one text"}) == "one text"
    assert read("answer", {"answer": 1912}) == "1912"
    assert read("answer", {"answer": "x" * 400}) is None
    assert read("answer", {"answer": "a </answer> b"}) is None


@pytest.mark.usefixtures("all_asked")
def test_where_all_are_asked_for_one_that_cannot_be_said_leaves_the_row_out() -> None:
    assert answers.gold_of({"answer": ["Ann", "x" * 400]}) is None
    assert answers.gold_of({"answer": ["Ann", "Bo", "ann"]}) == ["Ann", "Bo"]


def test_a_gold_that_was_read_is_read_again_as_the_same() -> None:
    for gold in ("Ada", ["Ada"], ["Ada", "Bo"]):
        assert answers.gold_of({"answer": answers.gold_of({"answer": gold})}) == gold
