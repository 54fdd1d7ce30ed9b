"""Rollouts that follow each other and rollouts that take turns, in real games of a few turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from prime_lab_mcp.lab.rewards.interleaving import MixedRollouts, find_mixed_rollouts
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE
from prime_lab_mcp.lab.rewards.rules.leaked_answers import rollouts_mix
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, as_play, silent_script
from prime_lab_mcp.lab.worker.child.turn_taking import Seat, take_turns
from tests.lab.rewards.rules.trials import sound

from .conftest import Opened, Write

pytestmark = pytest.mark.anyio

GAME = """
import asyncio, itertools, random, time
import verifiers.v1 as vf

COUNT = itertools.count()
TABLES = []

class Data(vf.TaskData):
    stones: int

class SampleTask(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def won(self, trace: vf.Trace) -> float:
        return 0.0

class SampleTaskset(vf.Taskset[SampleTask, vf.TasksetConfig]):
    def load(self):
        for n in range(6):
            yield SampleTask(Data(prompt=f"Table {{n}}: how many do you take?", stones=40 + 7 * n), self.config.task)

class Config(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig(), max_turns=4)

class SampleEnv(vf.SingleAgentEnv, vf.Env[Config]):
    async def run(self, task, agents):
        self.left, left, begun = task.data.stones, task.data.stones, time.monotonic()
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            while not turn.terminated:
                self.left, left = self.left - 1, left - 1
                turn = await interaction.turn({says})

__all__ = ["SampleTaskset", "SampleEnv"]
"""


async def mixed(write: Write, opened: Opened, says: str) -> MixedRollouts | None:
    """What is found in a game whose message is the value of `says`."""
    async with opened(write(GAME.format(says=says))) as worker:
        rows = (await worker.rows(limit=6)).rows
        rollouts = await worker.rollout([as_play(silent_script(), 0)], seconds=60)
        known = [PlayedScript(0, silent_script(), result) for result in rollouts.results]
        return await find_mixed_rollouts(worker, rows, BARE, "", known)


async def test_a_game_on_the_environment_is_overwritten_by_the_one_that_began_last(
    write: Write, opened: Opened
) -> None:
    found = await mixed(write, opened, says="f'{self.left} left'")
    assert found is not None
    # Which turn is the first to differ depends on the number of games, and so on how fast this machine plays them.
    stones = 40 + 7 * found.alone.row
    assert found.messages[0] in [f"{stones - turn} left" for turn in (1, 2, 3)]
    assert found.messages[1] != found.messages[0]
    (finding,) = rollouts_mix(sound(mixed=found))
    assert (finding.code, finding.severity) == ("reward-rollout-differs", "blocker")
    assert found.messages[1] in finding.message


@pytest.mark.parametrize(
    "says",
    [
        "f'{left} left'",
        "f'{left} left, message {next(COUNT)}'",
        "f'{left} left, I think of {random.randint(1, 3)}'",
        "f'{left} left at {time.time():.3f}'",
        "f'{left} left on {object()}'",
        'f\'{left} left, and {"much" if time.monotonic() - begun < 0.1 else "no"} time\'',
    ],
)
async def test_games_of_their_own_counters_chance_and_clocks_are_no_finding(
    write: Write, opened: Opened, says: str
) -> None:
    assert await mixed(write, opened, says) is None


def speaker(name: str, turns: int, said: list[str]) -> Callable[[Seat], Awaitable[Any]]:
    async def speak(seat: Seat) -> str:
        for turn in range(turns):
            await seat.wait()
            said.append(f"{name}{turn}")
            await asyncio.sleep(0.001)
        return name

    return speak


async def test_rollouts_go_on_one_after_the_other_until_all_have_ended() -> None:
    said: list[str] = []
    names = await take_turns([speaker("a", 3, said), speaker("b", 1, said), speaker("c", 2, said)])
    assert (names, said) == (["a", "b", "c"], ["a0", "b0", "c0", "a1", "c1", "a2"])


async def test_a_rollout_that_waits_for_another_one_does_not_stop_it() -> None:
    lock, said = asyncio.Lock(), list[str]()

    def alone(name: str) -> Callable[[Seat], Awaitable[Any]]:
        async def speak(seat: Seat) -> Any:
            seat.patience = 0.05
            async with lock:
                return await speaker(name, 2, said)(seat)

        return speak

    assert await take_turns([alone("a"), alone("b")]) == ["a", "b"]
    assert said == ["a0", "a1", "b0", "b1"]
