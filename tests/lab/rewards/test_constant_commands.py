"""A command that is the same on every task, and what a haggling environment pays for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from prime_lab_mcp.lab.rewards.constant_commands import play_commands, turns_of_solutions
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.rules.goldless import constant_command
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, silent_script
from prime_lab_mcp.lab.rewards.shown_commands import commands_in
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Component, RequestedRollout, RolloutResult, Rollouts

RULES = """You sell a {thing} and the buyer bids {bid}. End with one of these lines:

ASK <coins>     name a price
TAKE <coins>    sell at the price that the buyer has named
STOP            go home
"""
TASKS = [
    Row(n, str(n), ({"role": "user", "content": RULES.format(thing=thing, bid=20 + n)},), None, None, {})
    for n, thing in enumerate(("lamp", "chair", "clock", "kite", "globe", "flute"))
]


def test_commands_are_read_from_lines_that_follow_each_other() -> None:
    assert commands_in(RULES) == ["ASK 1", "TAKE 1", "STOP", "ASK 0", "TAKE 0", "ASK 1000", "TAKE 1000"]
    assert commands_in("Say move <piece> <square>.\n\nmove <piece> <square>\nDONE") == [
        "move 1 1",
        "DONE",
        "move 0 0",
        "move 1000 1000",
    ]


def test_commands_are_read_from_sentences_with_a_word_or_a_number_in_each_place() -> None:
    assert commands_in("Each message is one line 'MOVE <up|down> <steps>'.") == [
        "MOVE up 1",
        "MOVE up 0",
        "MOVE up 1000",
    ]
    assert commands_in("Guess with GUESS: <animal> at last.")[0] == "GUESS: 1"


@pytest.mark.parametrize("prompt", ["Use <answer> tags.", "TODO\n\nanswer <value>", "Read this.\nThen write that."])
def test_other_prompts_list_no_commands(prompt: str) -> None:
    assert commands_in(prompt) == []


class Buyer:
    """A stand-in for a worker: one turn, in which a sale at the stated or at the buyer's price ends the rollout."""

    def __init__(self, believes: bool) -> None:
        self.believes = believes

    async def rollout(self, requested: Sequence[RequestedRollout], **_: Any) -> Rollouts:
        return Rollouts(tuple(self._sold(asked.row, asked.script["turns"][0]) for asked in requested))

    def _sold(self, row: int, reply: str) -> RolloutResult:
        match = re.match(r"TAKE (\d+)", reply)
        price = 0 if match is None else int(match[1]) if self.believes else 20 + row
        reward = min(1.0, price / 60)
        return RolloutResult((), reward, "ended", True, {"sale": Component(reward, 1.0)}, turns=1)


@pytest.mark.parametrize(("believes", "blocked"), [(True, True), (False, False)])
@pytest.mark.anyio
async def test_a_buyer_that_pays_whatever_is_stated_blocks(believes: bool, blocked: bool) -> None:
    commands = await play_commands(cast(Worker, Buyer(believes)), TASKS)
    idle = PlayedScript(0, silent_script(), RolloutResult((), 0.0, "ended", True))
    trial = Trial((), None, form_requested=False, rollouts=(idle,), commands=commands)
    assert [(f.code, f.severity) for f in constant_command(trial)] == [("reward-hackable", "blocker")] * blocked


class Guessing:
    """A stand-in for a worker: the hidden word is guessed by one of many replies, or by all letters at once."""

    def __init__(self, letters: bool) -> None:
        self.letters = letters

    async def rollout(self, requested: Sequence[RequestedRollout], **_: Any) -> Rollouts:
        return Rollouts(tuple(self._guessed(asked.row, asked.script["turns"]) for asked in requested))

    def _guessed(self, row: int, turns: Sequence[str]) -> RolloutResult:
        hidden = ("red", "blue", "green", "white", "black", "brown")[row]
        right = set(hidden) <= set(turns[0].split()[-1]) if self.letters else f"GUESS {hidden}" in turns
        return RolloutResult((), float(right), "ended", True, {"won": Component(float(right), 1.0)}, turns=1)


@pytest.mark.parametrize(
    ("letters", "prompt"),
    [
        (True, "Find the word. Name one letter in each reply: `GUESS x`."),
        (False, "I think of red, blue, green, white, black, or brown. Reply `GUESS colour`."),
    ],
)
@pytest.mark.anyio
async def test_games_that_differ_only_in_what_is_hidden_are_played_too(letters: bool, prompt: str) -> None:
    games = [Row(n, str(n), ({"role": "user", "content": prompt},), None, {"hidden": n}, {}) for n in range(6)]
    commands = await play_commands(cast(Worker, Guessing(letters)), games)
    assert [command.all_earned for command in commands] == [True]
    assert not await play_commands(cast(Worker, Guessing(letters)), [replace(game, info=None) for game in games])


class Line:
    """A stand-in for a worker: a game that is won by the right number, or by one that the opponent cannot answer."""

    def __init__(self, forfeits: bool) -> None:
        self.forfeits = forfeits

    async def rollout(self, requested: Sequence[RequestedRollout], **_: Any) -> Rollouts:
        return Rollouts(tuple(self._won(asked.row, asked.script["turns"][0]) for asked in requested))

    def _won(self, row: int, reply: str) -> RolloutResult:
        match = re.search(r"<move>(-?\d+)</move>", reply)
        won = match is not None and (int(match[1]) == row + 2 or (self.forfeits and int(match[1]) > 9))
        return RolloutResult((), float(won), "ended", True, {"won": Component(float(won), 1.0)}, turns=1)


@pytest.mark.parametrize(("forfeits", "blocked"), [(True, True), (False, False)])
@pytest.mark.anyio
async def test_a_turn_of_solutions_with_a_number_that_wins_every_game_blocks(forfeits: bool, blocked: bool) -> None:
    said = [f"I take this one.\n<move>{n + 2}</move>" for n in range(6)]
    games = [replace(task, prompt=({"role": "user", "content": f"Line {task.index}. You begin."},)) for task in TASKS]
    commands = await play_commands(cast(Worker, Line(forfeits)), games, said=said)
    trial = Trial((), None, form_requested=False, commands=commands)
    found = list(constant_command(trial))
    assert [(f.code, f.severity) for f in found] == [("reward-hackable", "blocker")] * blocked
    assert all('<move>99</move>" in every turn of every task earned 1' in f.message for f in found)
    assert not await play_commands(cast(Worker, Line(forfeits)), games, said=said, few=True)


def test_turns_of_solutions_keep_their_words_and_get_other_numbers() -> None:
    assert turns_of_solutions(["take 2", "take 2", "take 3"]) == [
        "take 2",
        "take 3",
        "take 0",
        "take 1",
        "take 99",
        "take -1",
    ]
    assert turns_of_solutions(["DONE", "DONE"]) == []
    assert turns_of_solutions(["left", "right", "left"]) == ["left", "right"]
