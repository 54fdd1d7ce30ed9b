"""The boolean template's comparison of answers and its reading of rows, without verifiers."""

from __future__ import annotations

import pytest

from tests.templates.loading import modules

M = modules("boolean", "answers", "shape")
answers, shape = M["answers"], M["shape"]


@pytest.mark.parametrize("said", ["yes", "Yes.", "TRUE", "true", " yes ", "**Yes**", "\\boxed{yes}", "Yes!"])
def test_yes_and_true_are_the_same(said: str) -> None:
    assert answers.score(f"<answer>{said}</answer>", "yes") == 1.0
    assert answers.score(f"<answer>{said}</answer>", "no") == 0.0


@pytest.mark.parametrize(
    "said", ["not yes", "no", "yes and no", "no, yes", "yes no", "", "1", "yesterday", "not no", "untrue"]
)
def test_negations_and_both_words_do_not_score(said: str) -> None:
    assert answers.score(f"<answer>{said}</answer>", "yes") == 0.0


@pytest.mark.parametrize("gold", ["yes", "no"])
@pytest.mark.parametrize(
    "reply", ["", "yes", "no", "<answer>yes", "<answer>no</answer> <answer>yes</answer>", "<think><answer>no</answer>"]
)
def test_silence_is_neither_yes_nor_no(reply: str, gold: str) -> None:
    assert answers.score(reply, gold) == 0.0
    assert not answers.in_form(reply)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (True, "yes"),
        (False, "no"),
        (1, "yes"),
        (0, "no"),
        ("1", "yes"),
        (1.0, "yes"),
        ("Yes", "yes"),
        ("NO.", "no"),
        ("false", "no"),
        (-1, None),
        (None, None),
        ("", None),
        ("maybe", None),
        (2, None),
    ],
)
def test_boolq_and_strategyqa_and_class_numbers_become_yes_or_no(value: object, answer: str | None) -> None:
    expected = None if answer is None else {"question": "q", "answer": answer}
    assert shape.canonical({"question": "q", "answer": value}) == expected


def test_a_passage_goes_before_its_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "PROMPT_COLUMNS", ("passage", "question"))
    row = {"passage": "Ice is lighter than water.", "question": "does ice float", "answer": True}
    assert shape.canonical(row) == {"question": "Ice is lighter than water.\n\ndoes ice float", "answer": "yes"}
