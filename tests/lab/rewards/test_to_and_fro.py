"""Walks to and fro: in which forms they are played, and what of their rewards counts."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE, tag_wrapper
from prime_lab_mcp.lab.rewards.reward_source import spoken_sentences
from prime_lab_mcp.lab.rewards.to_and_fro import PaidWalk, _walks, play_to_and_fro
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.scoring import ROLLOUT_SECONDS, TURNS, OfferedTool, RolloutResult, Rollouts

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def row(number: int) -> Row:
    message = {"role": "user", "content": f"Map {number}: go `north`, `south`, east or west to the treasure."}
    return Row(number, f"k{number}", (message,), None, None, {})


ROWS = [row(number) for number in range(8)]


class Grid:
    """A worker whose rollouts pay for each step that leads north (`nearer`), less for each south (`away`)."""

    def __init__(self, nearer: float, away: float, turn_ms: float = 1.0, most_turns: int = 200) -> None:
        self.nearer, self.away, self.turn_ms, self.most_turns = nearer, away, turn_ms, most_turns

    async def rollout(self, plays: Any, **_: Any) -> Rollouts:
        return Rollouts(tuple(map(self._played, plays)))

    def _played(self, play: Any) -> RolloutResult:
        ms = self.turn_ms * len(play.script["turns"])
        if ms > 1000 * ROLLOUT_SECONDS:
            return RolloutResult((), None, "slow", False, ms=ms)
        if len(play.script["turns"]) > self.most_turns:
            return RolloutResult((), None, "cut", False, ms=ms)
        turns = play.script["turns"][:40]
        reward = sum(self.nearer if "north" in turn else -self.away if "south" in turn else 0.0 for turn in turns)
        messages = tuple({"role": "assistant", "content": turn} for turn in turns)
        return RolloutResult(messages, round(reward, 6), "ended", True, ms=ms)


async def walk(nearer: float, away: float) -> PaidWalk | None:
    return await play_to_and_fro(Grid(nearer, away), ROWS, (), tag_wrapper("move"), "")  # type: ignore[arg-type]


async def test_steps_that_are_paid_and_not_taken_back_are_paid_without_end() -> None:
    found = await walk(0.05, 0.0)
    assert found is not None
    assert found.step == pytest.approx(0.05)
    assert len(found.rollouts) == 8
    assert found.rollouts[0].result.reward == pytest.approx(1.0)


async def test_a_step_away_may_earn_a_little_where_unused_turns_cost_more() -> None:
    found = await walk(0.05, -0.01)
    assert found is not None
    assert found.step == pytest.approx(0.06)
    assert await walk(0.05, -0.02) is None


async def test_a_walk_is_as_long_as_the_time_of_a_rollout_allows() -> None:
    slow = Grid(0.05, 0.0, turn_ms=350.0)
    found = await play_to_and_fro(slow, ROWS, (), tag_wrapper("move"), "")  # type: ignore[arg-type]
    assert found is not None
    assert found.rollouts[0].result.reward == pytest.approx(0.7)


async def test_a_walk_that_is_cut_is_played_again_with_fewer_turns() -> None:
    cut = Grid(0.05, 0.0, most_turns=TURNS)
    found = await play_to_and_fro(cut, ROWS, (), tag_wrapper("move"), "")  # type: ignore[arg-type]
    assert found is not None
    assert found.rollouts[0].result.reward == pytest.approx(1.0)


async def test_steps_that_are_taken_back_are_not() -> None:
    assert await walk(0.05, 0.05) is None


async def test_a_game_that_pays_for_every_turn_pays_no_walk() -> None:
    assert await walk(0.05, -0.05) is None


def test_a_tool_is_called_with_the_words_of_its_own_list() -> None:
    schema = {"direction": {"type": "string", "enum": ["NORTH", "SOUTH", "EAST", "WEST"]}}
    tool = OfferedTool("move", "Moves.", {"properties": schema, "required": ["direction"]})
    calls = [[turn["calls"][0] for turn in turns] for _, turns in _walks(["anything"], [tool], BARE, "")]
    assert calls[0] == [["move", {"direction": "NORTH"}], ["move", {"direction": "SOUTH"}]]


def test_commands_are_written_as_the_prompt_shows_them() -> None:
    prompt = "Reply with MOVE <up|down|left|right>, one step in a message."
    assert next(iter(_walks([prompt], (), BARE, "")))[1] == ["MOVE up", "MOVE down"]


def test_the_sentences_of_a_verdict_come_first() -> None:
    source = 'PROMPT = "Guess the animal that I have in mind"\nreply = "Yes, you found it!"\nname = "otter"\n'
    assert spoken_sentences(source) == ("Yes, you found it!", "Guess the animal that I have in mind")


def test_a_step_that_only_the_code_names_is_the_other_one_of_the_step_that_the_prompt_shows() -> None:
    prompt = "Make one step, for example:\n<move>north</move>"
    source = 'STEPS = {"north": (-1, 0), "south": (1, 0)}'
    pairs = [steps for _, steps in _walks([prompt], (), tag_wrapper("move"), source)]
    assert pairs == [["<move>north</move>", "<move>south</move>"]]
    assert not list(_walks([prompt], (), tag_wrapper("move"), "STEPS = {}"))
    assert not list(_walks(["Go anywhere."], (), tag_wrapper("move"), source))
