"""The template game: its rules, its opponent, its generator, and whole games played through `vf-eval`."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.assembled import assembled
from tests.templates.loading import modules
from tests.templates.turns import earned, evaluate, said, talking

_LOADED = modules("game", "duel", "generator")
duel, generator = _LOADED["duel"], _LOADED["generator"]
Game = duel.Game


def share_won(level: str, choose: Any) -> float:
    """How many of 60 games a way of guessing wins."""
    won = 0
    for game in generator.games("train", level, 60, 1):
        played = duel.Duel(game)
        while played.play(f"<guess>{choose(played)}</guess>") is not None:
            pass
        won += played.winner == "player"
    return won / 60


@pytest.mark.parametrize(
    ("guess", "code", "marks"),
    [("ABC", "ABC", (3, 0)), ("ACB", "ABC", (1, 2)), ("ADE", "BCA", (0, 1)), ("DEF", "ABC", (0, 0))],
)
def test_marks_count_digits_in_place_and_elsewhere(guess: str, code: str, marks: tuple[int, int]) -> None:
    assert duel.marks(guess, code) == marks


@pytest.mark.parametrize(
    ("reply", "guess"),
    [
        ("I try <guess>D A G</guess>.", "DAG"),
        ("<think><guess>ABC</guess></think> <guess>DAG</guess>", "DAG"),
        ("<guess>DAG</guess> or <guess>DAH</guess>", None),
        ("<guess>DAA</guess>", None),
        ("<guess>DA9</guess>", None),
        ("<guess>DAG", None),
        ("DAG", None),
    ],
)
def test_one_possible_code_in_tags_is_a_guess(reply: str, guess: str | None) -> None:
    assert duel.guess_of(reply) == guess


def test_a_game_follows_from_its_task_and_the_replies_alone() -> None:
    game, replies = Game("DAG", "hard", 5), ["<guess>ABC</guess>", "hm", "<guess>DEF</guess>"]
    first = duel.played(game, replies).guesses
    random.seed(1)
    assert duel.played(game, replies).guesses == first
    assert duel.played(Game("DAG", "hard", 6), replies).guesses != first


def test_a_reply_without_a_guess_is_a_lost_turn_and_the_opponent_goes_on() -> None:
    game = duel.Duel(Game("DAG", "easy", 5))
    answer = game.play("I pass.")
    assert re.fullmatch(r"That is no guess, so you lose this turn\. The opponent guesses [A-H]{3}: .*", answer)
    assert len(game.guesses) == 2


def test_the_opponent_wins_a_game_that_the_player_does_not_play() -> None:
    game = duel.played(Game("DAG", "hard", 5), ["I pass."] * duel.MAX_ROUNDS)
    assert game.winner == "opponent"
    assert game.guesses[-1] == "DAG"


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_every_game_can_be_won_by_using_all_marks(level: str) -> None:
    assert share_won(level, lambda game: duel.possible(game.guesses, game.game.code)[0]) == 1.0


def test_guessing_blindly_wins_little_and_a_stronger_opponent_is_harder_to_beat() -> None:
    draw = random.Random(1)
    blind = share_won("easy", lambda game: draw.choice(duel.CODES))
    shares = [
        share_won(level, lambda game: draw.choice(duel.possible(game.guesses, game.game.code)))
        for level in generator.LEVELS
    ]
    assert blind < 0.1
    assert shares[0] > shares[1] > shares[2] > blind


def test_the_same_arguments_give_the_same_games_which_begin_differently() -> None:
    first = list(generator.games("train", "all", 60, 0))
    random.seed(5)
    assert first == list(generator.games("train", "all", 60, 0))
    assert first != list(generator.games("train", "all", 60, 1))
    assert len({duel.Duel(game).opening() for game in first}) == 60
    assert [game.level for game in first[:3]] == list(generator.LEVELS)


def test_no_code_is_in_both_splits_with_any_seeds() -> None:
    train = {game.code for seed in range(2) for game in generator.games("train", "easy", 100, seed)}
    held = {game.code for seed in range(2) for game in generator.games("eval", "easy", 60, seed)}
    assert not train & held


def test_too_many_games_are_refused_with_the_number_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "good_guesses", lambda game: game.code == "ABC")
    with pytest.raises(ValueError, match=r"there are only \d+ games of level easy, and 50 are asked for"):
        list(generator.games("train", "easy", 50, 0))


@pytest.mark.slow
def test_a_game_is_played_through_the_environment_and_scored_by_its_end(tmp_path: Path) -> None:
    """One model finds the code by the marks, one never guesses."""

    def by_marks(messages: list[dict[str, Any]]) -> str:
        shown = re.findall(r"([A-H]{3}): (\d) in place, (\d) elsewhere", " ".join(str(m["content"]) for m in messages))
        fits = (c for c in duel.CODES if all(duel.marks(g, c) == (int(a), int(b)) for g, a, b in shown))
        return f"<guess>{next(fits)}</guess>"

    with talking(by_marks) as model:
        [won] = evaluate(assembled("game"), tmp_path / "won", model.url)
    with talking(lambda messages: "I pass.") as model:
        [lost] = evaluate(assembled("game"), tmp_path / "lost", model.url, level="hard")
    assert (earned(won), earned(lost)) == (1.1, 0.0)
    assert won["task"]["data"]["answer"] not in " ".join(text for role, text in said(won) if role in ("system", "user"))
    assert lost["metrics"]["lost_to_opponent"] == 1.0
