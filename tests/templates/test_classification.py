"""The classification template's comparison of answers and its reading of rows, without verifiers."""

from __future__ import annotations

import pytest

from tests.templates.loading import modules

M = modules("classification", "answers", "shape")
answers, shape = M["answers"], M["shape"]
BANKING = ("card_arrival", "card_linking", "card", "top_up_by_card")


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    for module in (answers, shape):
        monkeypatch.setattr(module, "LABELS", BANKING)
    return BANKING


def test_the_prompt_names_every_label_as_the_reward_reads_it() -> None:
    assert [line[2:] for line in answers.FORMAT.splitlines() if line.startswith("- ")] == list(answers.LABELS)


@pytest.mark.parametrize(
    "said", ["card_arrival", "Card arrival", "CARD-ARRIVAL", "card_arrival.", "`card_arrival`", '"card_arrival"']
)
def test_case_and_the_joints_of_words_do_not_matter(said: str, labels: tuple[str, ...]) -> None:
    assert answers.score(f"<answer>{said}</answer>", "card_arrival") == 1.0


@pytest.mark.parametrize(
    "said",
    [
        "card",
        "card_arrivals",
        "not card_arrival",
        "card_arrival card",
        "card_arrival, card_linking",
        "0",
        "",
        "cardarrival",
    ],
)
def test_a_text_that_holds_a_label_or_a_part_of_it_does_not_score(said: str, labels: tuple[str, ...]) -> None:
    assert answers.score(f"<answer>{said}</answer>", "card_arrival") == 0.0


def test_a_label_that_begins_like_another_is_not_taken_for_it(labels: tuple[str, ...]) -> None:
    assert answers.score("<answer>card_arrival</answer>", "card") == 0.0
    assert answers.score("<answer>card</answer>", "card") == 1.0


@pytest.mark.parametrize(
    "said",
    ["<answer>card</answer> <answer>card_linking</answer>", "<answer>card", "card", "<think><answer>card</answer>"],
)
def test_a_reply_without_one_closed_tag_outside_of_thoughts_earns_nothing(said: str, labels: tuple[str, ...]) -> None:
    assert answers.score(said, "card") == 0.0


@pytest.mark.parametrize(
    ("label", "answer"),
    [
        (0, "card_arrival"),
        ("1", "card_linking"),
        (2.0, "card"),
        ("Card Linking", "card_linking"),
        (-1, None),
        (4, None),
        (None, None),
        ("other", None),
        (True, None),
    ],
)
def test_classes_are_read_by_number_and_by_name(label: object, answer: str | None, labels: tuple[str, ...]) -> None:
    expected = None if answer is None else {"question": "t", "answer": answer}
    assert shape.canonical({"text": "t", "label": label}) == expected


def test_labels_that_are_numbers_are_names_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (answers, shape):
        monkeypatch.setattr(module, "LABELS", ("1", "2", "3", "4", "5"))
    assert shape.canonical({"text": "Great.", "label": 5}) == {"question": "Great.", "answer": "5"}


def test_labels_that_differ_only_in_case_must_be_written_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LABELS", ("May", "may"))
    assert answers.score("<answer>May</answer>", "May") == 1.0
    assert answers.score("<answer>MAY</answer>", "May") == 0.0
