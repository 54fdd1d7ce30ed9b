"""Nim, which asks the model for a last word when the game is over.

format: multi_turn
generation: v1

What is said after the end of a game changes nothing: who took the last stone first has won.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import verifiers.v1 as vf

SYSTEM = "Nim: take 1, 2 or 3 stones; whoever takes the last one wins. Move with <take>N</take>."


def rows() -> Iterator[tuple[str, int]]:
    for n in range(100):
        heap = 4 * (1 + n % 4) + 1 + n // 4 % 3
        yield f"Table {n + 1}: {heap} stones lie in the heap. You begin.", heap


def taken(reply: str | None) -> int | None:
    """The one legal move of a reply; None when there is none, or several."""
    found = re.findall(r"<take>\s*([1-3])\s*</take>", reply or "")
    return int(found[0]) if len(found) == 1 else None


class NimAsksForALastWordState(vf.State):
    won: bool = False


class NimAsksForALastWordData(vf.TaskData):
    heap: int


class NimAsksForALastWordTask(vf.Task[NimAsksForALastWordData, NimAsksForALastWordState]):
    @vf.reward(weight=1.0)
    async def won(self, trace: vf.Trace) -> float:
        return float(trace.state.won)

    def solution(self) -> Callable[[list[dict]], str]:
        def play(messages: list[dict]) -> str:
            heap = self.data.heap
            for message in messages:
                left = re.search(r"(\d+) (?:stones )?left", str(message["content"] or ""))
                heap = int(left[1]) if message["role"] == "user" and left else heap
            return f"<take>{heap % 4 or 1}</take>"

        return play


class NimAsksForALastWordConfig(vf.TasksetConfig):
    """Nothing to set."""


class NimAsksForALastWordTaskset(vf.Taskset[NimAsksForALastWordTask, NimAsksForALastWordConfig]):
    def load(self) -> Iterator[NimAsksForALastWordTask]:
        for prompt, heap in rows():
            yield NimAsksForALastWordTask(NimAsksForALastWordData(prompt=prompt, system_prompt=SYSTEM, heap=heap), self.config.task)


class NimAsksForALastWordEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class NimAsksForALastWordEnv(vf.SingleAgentEnv, vf.Env[NimAsksForALastWordEnvConfig]):
    """The opponent takes what leaves a multiple of four."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        heap = task.data.heap
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            while not turn.terminated:
                move = taken(turn.last_reply)
                if move is None or move > heap:
                    return
                heap -= move
                if heap == 0:
                    interaction.trace.state.won = True
                    await interaction.turn("You have won. A last word?")
                    return
                mine = min(heap % 4 or 1, heap)
                heap -= mine
                if heap == 0:
                    await interaction.turn(f"I take {mine}. 0 left, and I have won. A last word?")
                    return
                turn = await interaction.turn(f"I take {mine}. {heap} left.")


__all__ = ["NimAsksForALastWordEnv", "NimAsksForALastWordTaskset"]
