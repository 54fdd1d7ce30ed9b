"""Games of the corpus, played to their end with replies that the environment accepts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prime_lab_mcp.lab.rewards.accepted_replies import AcceptedGame, play_accepted
from prime_lab_mcp.lab.rewards.replays import Replay, replay
from prime_lab_mcp.lab.rewards.solutions import Solved, play_solutions
from tests.flaws.corpus import ROOT

from .conftest import Opened, Write

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def played(write: Write, opened: Opened, name: str) -> tuple[tuple[AcceptedGame, ...], tuple[Replay, ...]]:
    """The accepted games of a sample, and the differences between their replays."""
    async with opened(write((ROOT / name).read_text(encoding="utf-8"))) as worker:
        loaded = await worker.load()
        solved = await play_solutions(worker, loaded, (await worker.rows(limit=40)).rows)
        # The machine may be busy, and slow rollouts are not played again.
        solved = Solved(tuple(replace(p, result=replace(p.result, ms=1.0)) for p in solved.scored))
        games = await play_accepted(worker, solved)
        return games, await replay(worker, solved.scored, (), [p for game in games for p in game.ends])


async def test_a_game_that_was_won_once_pays_a_legal_game_that_is_lost(write: Write, opened: Opened) -> None:
    games, replays = await played(write, opened, "defects/kayles_pays_once_beaten.py")
    assert len(games) == 2
    assert "accepts" in replays[0].first.script.name
    assert (replays[0].first.result.reward, replays[0].later.result.reward) == (0.0, 1.0)


async def test_every_reply_after_the_end_of_a_lost_game_is_paid(write: Write, opened: Opened) -> None:
    games, replays = await played(write, opened, "defects/nim_goes_on_at_zero.py")
    assert [len(game.after_end) > 2 for game in games] == [True, True]
    assert replays == ()


@pytest.mark.parametrize("name", ["nim_asks_for_a_last_word", "nim_against_chance", "nim_keeps_its_table"])
async def test_a_sound_game_is_played_to_its_end_and_pays_the_same_again(
    write: Write, opened: Opened, name: str
) -> None:
    games, replays = await played(write, opened, f"sound/{name}.py")
    assert [(bool(game.ends), game.after_end) for game in games] == [(True, ())] * 2
    assert replays == ()
