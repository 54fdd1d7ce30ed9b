"""The example science_choice: places of the right options and ways to choose one; without verifiers."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.environments.pure_modules import pure_modules

answers, options, rows = pure_modules("science_choice", "answers", "options", "rows")
TRAIN = list(rows.questions("train"))


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_letter_is_right_equally_often(number: int, seed: int) -> None:
    found = Counter(placed.answer for placed in options.place(TRAIN, number, seed))
    assert set(found) == set("ABCD"[:number])
    assert max(found.values()) - min(found.values()) <= 1


def test_a_seed_gives_the_same_places_and_another_seed_others() -> None:
    first, again, other = (options.place(TRAIN, 4, seed) for seed in (0, 0, 1))
    assert first == again
    assert sum(a.options != b.options for a, b in zip(first, other, strict=True)) > len(TRAIN) / 2


def test_every_question_shows_its_right_option_once_among_different_ones() -> None:
    for placed in options.place(TRAIN, 4, 0):
        assert len(set(placed.options)) == 4
        assert placed.options["ABCD".index(placed.answer)] == placed.question.right


OFFERED = ("iron", "lead", "B vitamins", "tin")


@pytest.mark.parametrize("said", ["B", "b", "(B)", "B.", "lead", "Lead.", "B) lead"])
def test_letter_and_text_choose_the_same_option(said: str) -> None:
    assert answers.given(f"<answer>{said}</answer>", OFFERED) == "B"


@pytest.mark.parametrize("said", ["B) iron", "A B", "E", "gold", "iron and lead", "", "not lead", "C vitamins"])
def test_what_names_no_option_or_contradicts_itself_chooses_none(said: str) -> None:
    assert answers.given(f"<answer>{said}</answer>", OFFERED) is None


def test_the_splits_have_no_question_in_common() -> None:
    assert len(TRAIN) >= 100
    assert not {q.text for q in TRAIN} & {q.text for q in rows.questions("test")}
