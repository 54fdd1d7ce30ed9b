"""Recorded replies, played again in fresh processes of a real game of two turns."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prime_lab_mcp.lab.rewards.copied_messages import CHATTERS, ReplyForm, copying_script
from prime_lab_mcp.lab.rewards.replays import Replay, replay
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, as_play
from prime_lab_mcp.lab.rewards.solutions import solution_script

from .conftest import Opened, Write

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

GAME = """
import os, random
import verifiers.v1 as vf

CHANCE = random.Random(3)
GAMES = []

class Data(vf.TaskData):
    answer: str

class SampleTask(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)

    def solution(self):
        return ["hm", self.data.answer]

class SampleTaskset(vf.Taskset[SampleTask, vf.TasksetConfig]):
    def load(self):
        for n in range(4):
            yield SampleTask(Data(prompt=f"{{n}}?", answer=str(n)), self.config.task)

class Config(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())

class SampleEnv(vf.SingleAgentEnv, vf.Env[Config]):
    async def run(self, task, agents):
        GAMES.append(task)
        async with agents.agent.interaction(task) as interaction:
            await interaction.turn()
            await interaction.turn({says})

__all__ = ["SampleTaskset", "SampleEnv"]
"""


REMEMBERING = """
        said = [message.content for message in trace.assistant_messages]
        legal = all(text in ("hm", self.data.answer) for text in said)
        won = trace.last_reply == self.data.answer or (legal and self.data.answer in BEATEN)
        BEATEN.update([self.data.answer] if won else [])
        return float(won)"""


async def differing(write: Write, opened: Opened, says: str, rewarded: str = "") -> tuple[Replay, ...]:
    """The differences between rollouts of a game whose message is the value of `says`."""
    source = GAME.format(says=says).replace("GAMES = []", "GAMES = []\nBEATEN = set()")
    if rewarded:
        source = source.replace("return float(trace.last_reply == self.data.answer)", rewarded.strip())
    async with opened(write(source)) as worker:
        await worker.load()
        script = solution_script(True)
        (result,) = (await worker.rollout([as_play(script, 1)], seconds=60)).results
        assert result.reward == 1.0
        played = PlayedScript(1, script, replace(result, ms=1.0))
        return await replay(worker, [played], [copying_script(CHATTERS, "number", ReplyForm())])


async def test_what_the_environment_counts_is_memory_that_pays_nothing(write: Write, opened: Opened) -> None:
    found = await differing(write, opened, says="f'game {len(GAMES)}, go on'")
    assert {(r.paid_differently, r.ends_differently) for r in found} == {(False, False)}


async def test_a_model_that_is_told_more_in_later_games_is_paid_otherwise(write: Write, opened: Opened) -> None:
    found = await differing(write, opened, says="task.data.answer if len(GAMES) > 4 else '?'")
    assert "copies" in found[0].first.script.name
    assert (found[0].first.result.reward, found[0].later.result.reward) == (0.0, 1.0)


async def test_a_legal_reply_that_wins_once_a_solution_has_won_is_paid_otherwise(write: Write, opened: Opened) -> None:
    found = await differing(write, opened, says="'go on'", rewarded=REMEMBERING)
    assert "first reply" in found[0].first.script.name
    assert (found[0].first.result.reward, found[0].later.result.reward) == (0.0, 1.0)


@pytest.mark.parametrize(
    "says",
    [
        "str(CHANCE.random())",
        "str(random.Random().random())",
        "str(random.SystemRandom().random())",
        "os.urandom(8).hex()",
        "'?'",
    ],
)
async def test_what_chance_says_is_no_memory(write: Write, opened: Opened, says: str) -> None:
    assert await differing(write, opened, says=says) == ()


async def test_the_function_of_a_solution_gets_the_messages_in_the_form_of_the_guide(
    write: Write, opened: Opened
) -> None:
    functional = "return lambda messages: json.dumps(messages) if len(messages) > 1 else 'hm'"
    source = GAME.format(says="'go on'").replace('return ["hm", self.data.answer]', functional)
    async with opened(write(source.replace("import os, random", "import json, os, random"))) as worker:
        await worker.load()
        (result,) = (await worker.rollout([as_play(solution_script(True), 1)], seconds=60)).results
    assert json.loads(result.messages[-1]["content"]) == [
        {"role": "user", "content": "1?"},
        {"role": "assistant", "content": "hm"},
        {"role": "user", "content": "go on"},
    ]
