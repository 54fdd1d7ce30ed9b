"""The template simulated_user: what the user says, which booking is right, its generator, and whole conversations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.assembled import assembled
from tests.templates.loading import modules
from tests.templates.turns import earned, evaluate, said, talking

_LOADED = modules("simulated_user", "booking", "user", "generator")
booking, user, generator = _LOADED["booking"], _LOADED["user"], _LOADED["generator"]
VALUES = {"day": "Friday", "time": "19:30", "people": 4, "place": "terrace"}
OPEN = user.Wish("Ada", VALUES, "day", {}, False)
TERSE = user.Wish("Ada", VALUES, "day", {"people": 6}, True)
RIGHT = booking.written(VALUES)


def test_the_user_begins_with_one_detail_and_tells_no_other_that_was_not_asked_for() -> None:
    assert user.first_message(OPEN) == "Hello, this is Ada. I would like to book a table. On Friday."
    assert user.next_message(OPEN, ["Welcome!"]) == "What else do you need to know?"
    assert user.next_message(OPEN, ["At what time, and for how many?"]) == "At 19:30. We are 4."


def test_a_terse_user_answers_one_question_at_a_time_and_corrects_a_detail_at_the_end() -> None:
    replies = ["At what time, and for how many?"]
    assert user.next_message(TERSE, replies) == "At 19:30."
    replies.append("For how many?")
    assert user.next_message(TERSE, replies) == "We are 6."
    replies.append("Inside or outside?")
    assert user.next_message(TERSE, replies) == "Terrace, please. Sorry, I was wrong: We are 4."
    replies.append("How many, did you say?")
    assert user.next_message(TERSE, replies) == "We are 4."


def test_the_conversation_ends_with_a_booking_or_with_the_last_reply() -> None:
    assert user.next_message(OPEN, ["<booking>{}</booking>"]) is None
    assert user.next_message(OPEN, ["Hm."] * user.MAX_REPLIES) is None
    assert user.next_message(OPEN, ["<booking>{"]) == "I see no booking that I could read."


@pytest.mark.parametrize(
    "reply",
    [
        f"Done: <booking>{RIGHT}</booking>",
        '<booking>{"DAY": "friday", "time": " 19:30", "people": "4", "place": "Terrace"}</booking>',
        f"<booking>{RIGHT}</booking> Once more: <booking>{RIGHT}</booking>",
    ],
)
def test_the_wish_is_right_however_it_is_written(reply: str) -> None:
    assert booking.right(reply, RIGHT)


@pytest.mark.parametrize(
    "reply",
    [
        RIGHT,
        f"<booking>{RIGHT}",
        f"<think><booking>{RIGHT}</booking></think>",
        f"<booking>{RIGHT}</booking> or <booking>{RIGHT.replace('4', '5')}</booking>",
        f'<booking>{RIGHT[:-1]}, "extra": 1}}</booking>',
        f"<booking>[{RIGHT}]</booking>",
        '<booking>{"day": "Friday"}</booking>',
        '<booking>{"day": ["Friday"]}</booking>',
        "",
    ],
)
def test_anything_else_is_not(reply: str) -> None:
    assert not booking.right(reply, RIGHT)


def test_the_same_arguments_give_the_same_users_who_begin_differently() -> None:
    first = list(generator.wishes("train", "all", 90, 0))
    random.seed(5)
    assert first == list(generator.wishes("train", "all", 90, 0))
    assert first != list(generator.wishes("train", "all", 90, 1))
    assert len({user.first_message(wish) for _, wish in first}) == 90


def test_a_harder_level_takes_more_questions_and_only_the_hardest_corrects() -> None:
    wishes = dict(generator.wishes("train", "all", 3, 0))
    assert [len(wishes[level].values) for level in generator.LEVELS] == [3, 4, 4]
    assert [bool(wishes[level].mistaken) for level in generator.LEVELS] == [False, False, True]
    assert [wishes[level].terse for level in generator.LEVELS] == [False, False, True]


def test_no_user_is_in_both_splits_with_any_seeds() -> None:
    train = {wish.name for seed in range(3) for _, wish in generator.wishes("train", "all", 300, seed)}
    held = {wish.name for seed in range(3) for _, wish in generator.wishes("eval", "all", 150, seed)}
    assert not train & held


def test_too_many_users_are_refused_with_the_number_that_there_is() -> None:
    with pytest.raises(ValueError, match=r"there are only \d+ wishes of level easy, and 900 are asked for"):
        list(generator.wishes("eval", "easy", 900, 0))


@pytest.mark.slow
def test_a_conversation_runs_through_the_environment_and_the_last_reply_is_paid(tmp_path: Path) -> None:
    """One model asks for everything and books, one books at once."""
    [(_, wish)] = generator.wishes("train", "hard", 1, 0)
    questions = [user.QUESTIONS[detail] for detail in wish.values if detail != wish.opening]

    def asks(messages: list[dict[str, Any]]) -> str:
        replies = sum(m["role"] == "assistant" for m in messages)
        return questions[replies] if replies < len(questions) else f"<booking>{booking.written(wish.values)}</booking>"

    with talking(asks) as model:
        [asked] = evaluate(assembled("simulated_user"), tmp_path / "asked", model.url, level="hard")
    guess = booking.written(dict.fromkeys(wish.values, "Monday"))
    with talking(lambda messages: f"<booking>{guess}</booking>") as model:
        [guessed] = evaluate(assembled("simulated_user"), tmp_path / "guessed", model.url, level="hard")
    assert (earned(asked), earned(guessed)) == (1.1, 0.1)
    assert "Sorry, I was wrong" in said(asked)[-2][1]
    assert (asked["metrics"]["booked_too_early"], guessed["metrics"]["booked_too_early"]) == (0.0, 1.0)
