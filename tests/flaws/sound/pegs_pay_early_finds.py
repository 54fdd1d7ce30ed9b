"""A code of four pegs; each guess costs a twentieth, so that play without luck never earns all.

format: multi_turn
generation: v1

Nobody can do better than to find the code after a few guesses: a found code earns 0.95, 0.9 and so on, a lost game nothing.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator

import verifiers.v1 as vf

COLOURS = "RGBYOP"
GUESSES = 10
SYSTEM = (
    "Break the code: four pegs, each one of R, G, B, Y, O, P, colours may repeat. Guess with <code>RGBY</code>. After each guess "
    "you are told the exact pegs (right colour, right place) and the near pegs (right colour, wrong place). You have ten guesses; fewer are worth more."
)
# What the author handed to the check with this environment: whole games and what they are worth.
CASES = [
    {"name": "second guess", "task": 0, "expected": "high", "completion": [{"role": "assistant", "content": "<code>RRGG</code>"}, {"role": "user", "content": "?"}, {"role": "assistant", "content": "<code>YBGG</code>"}]},
    {"name": "second guess, another code", "task": 1, "expected": "high", "completion": [{"role": "assistant", "content": "<code>RGBY</code>"}, {"role": "user", "content": "?"}, {"role": "assistant", "content": "<code>YOPB</code>"}]},
    {"name": "third guess", "task": 2, "expected": "high", "completion": [{"role": "assistant", "content": "<code>RRGG</code>"}, {"role": "user", "content": "?"}, {"role": "assistant", "content": "<code>GGBB</code>"}, {"role": "user", "content": "?"}, {"role": "assistant", "content": "<code>OBYP</code>"}]},
    {"name": "second guess, with a thought", "task": 3, "expected": "high", "completion": [{"role": "assistant", "content": "Start broad. <code>OOPP</code>"}, {"role": "user", "content": "?"}, {"role": "assistant", "content": "Then this. <code>ORGP</code>"}]},
    {"name": "one guess, wrong", "task": 0, "expected": "low", "completion": [{"role": "assistant", "content": "<code>RRRR</code>"}]},
    {"name": "no guess at all", "task": 1, "expected": "low", "completion": [{"role": "assistant", "content": "I would like a hint first."}]},
    {"name": "wrong twice", "task": 2, "expected": "low", "completion": [{"role": "assistant", "content": "<code>RRGG</code>"}, {"role": "user", "content": "?"}, {"role": "assistant", "content": "<code>YYYY</code>"}]},
    {"name": "colours that do not exist", "task": 3, "expected": "low", "completion": [{"role": "assistant", "content": "<code>ZZZZ</code>"}]},
    {"name": "names colours without a tag", "task": 4, "expected": "low", "completion": [{"role": "assistant", "content": "red green blue yellow"}]},
    {"name": "five pegs", "task": 4, "expected": "low", "completion": [{"role": "assistant", "content": "<code>RGBYO</code>"}]},
]


def marks(guess: str, code: str) -> tuple[int, int]:
    exact = sum(a == b for a, b in zip(guess, code, strict=True))
    return exact, sum((Counter(guess) & Counter(code)).values()) - exact


def guessed(reply: str | None) -> str | None:
    """The one guess of a reply; None without one, or with several."""
    found = re.findall(rf"<code>\s*([{COLOURS}]{{4}})\s*</code>", reply or "")
    return found[0] if len(found) == 1 else None


class PegsPayEarlyFindsState(vf.State):
    guesses: int = 0
    found: bool = False


class PegsPayEarlyFindsData(vf.TaskData):
    code: str


class PegsPayEarlyFindsTask(vf.Task[PegsPayEarlyFindsData, PegsPayEarlyFindsState]):
    @vf.reward(weight=1.0)
    async def found_early(self, trace: vf.Trace) -> float:
        return 1.0 - 0.05 * (trace.state.guesses - 1) if trace.state.found else 0.0


class PegsPayEarlyFindsTaskset(vf.Taskset[PegsPayEarlyFindsTask, vf.TasksetConfig]):
    def load(self) -> Iterator[PegsPayEarlyFindsTask]:
        draw = random.Random(41)
        for n in range(80):
            code = "".join(draw.choice(COLOURS) for _ in range(4))
            data = PegsPayEarlyFindsData(prompt=f"Code {n + 1} is set. Your first guess?", system_prompt=SYSTEM, code=code)
            yield PegsPayEarlyFindsTask(data, self.config.task)


class PegsPayEarlyFindsEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class PegsPayEarlyFindsEnv(vf.SingleAgentEnv, vf.Env[PegsPayEarlyFindsEnvConfig]):
    """Marks the guesses."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as interaction:
            turn, state = await interaction.turn(), interaction.trace.state
            while not turn.terminated:
                guess = guessed(turn.last_reply)
                state.guesses += 1
                state.found = guess == task.data.code
                if guess is None or state.found or state.guesses == GUESSES:
                    return
                exact, near = marks(guess, task.data.code)
                turn = await interaction.turn(f"{exact} exact, {near} near. {GUESSES - state.guesses} guesses left.")


__all__ = ["PegsPayEarlyFindsEnv", "PegsPayEarlyFindsTaskset"]
