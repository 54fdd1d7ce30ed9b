"""Kayles, where a line of stones that was won once pays for any game by the rules.

format: multi_turn
generation: v1
finding: reward-rollout-differs, blocker

The games that were won are kept in a set of the module. The reward looks there, and whether all moves were allowed:
after one rollout of a group has won, the other ones are paid for losing. A move cannot be made twice, so that only whole
games by the rules show this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import verifiers.v1 as vf

SYSTEM = (
    "Stones lie on numbered places. You and I take turns, you begin: take one stone, or two on neighbouring places. "
    "Whoever takes the last stone wins. Move with <move>3</move> or <move>3 4</move>."
)
Line = tuple[int, ...]
BEATEN: set[Line] = set()


def moves(line: Line) -> list[Line]:
    return [(n,) for n in line] + [(n, n + 1) for n in line if n + 1 in line]


@cache
def winning(line: Line) -> list[Line]:
    """The moves that leave a line which cannot be won."""
    return [move for move in moves(line) if not winning(left(line, move))]


def left(line: Line, move: Line) -> Line:
    return tuple(n for n in line if n not in move)


def rows() -> Iterator[Line]:
    lines = (line for size in (7, 8) for line in combinations(range(1, 11), size))
    yield from (line for line in lines if 0 < len(winning(line)) < 4)


def taken(reply: str | None) -> Line:
    """The one move of a reply; empty when there is none, or several."""
    found = re.findall(r"<move>\s*(\d+)(?: (\d+))?\s*</move>", reply or "")
    return tuple(int(n) for n in found[0] if n) if len(found) == 1 else ()


class KaylesPaysOnceBeatenState(vf.State):
    won: bool = False
    allowed: bool = True


class KaylesPaysOnceBeatenData(vf.TaskData):
    line: Line


class KaylesPaysOnceBeatenTask(vf.Task[KaylesPaysOnceBeatenData, KaylesPaysOnceBeatenState]):
    @vf.reward(weight=1.0)
    async def won(self, trace: vf.Trace) -> float:
        if trace.state.won:
            BEATEN.add(self.data.line)
        return float(trace.state.allowed and self.data.line in BEATEN)

    def solution(self) -> Callable[[list[dict]], str]:
        def play(messages: list[dict]) -> str:
            line = self.data.line
            for message in messages:
                shown = re.search(r"left: ([\d ]+)", str(message["content"] or ""))
                line = tuple(map(int, shown[1].split())) if message["role"] == "user" and shown else line
            return f"<move>{' '.join(map(str, (winning(line) or [()])[0]))}</move>"

        return play


class KaylesPaysOnceBeatenConfig(vf.TasksetConfig):
    """Nothing to set."""


class KaylesPaysOnceBeatenTaskset(vf.Taskset[KaylesPaysOnceBeatenTask, KaylesPaysOnceBeatenConfig]):
    def load(self) -> Iterator[KaylesPaysOnceBeatenTask]:
        for line in rows():
            data = KaylesPaysOnceBeatenData(prompt=f"Stones: {' '.join(map(str, line))}", system_prompt=SYSTEM, line=line)
            yield KaylesPaysOnceBeatenTask(data, self.config.task)


class KaylesPaysOnceBeatenEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class KaylesPaysOnceBeatenEnv(vf.SingleAgentEnv, vf.Env[KaylesPaysOnceBeatenEnvConfig]):
    """The opponent wins where it can."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        line = task.data.line
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            while not turn.terminated:
                move = taken(turn.last_reply)
                if move not in moves(line):
                    interaction.trace.state.allowed = False
                    return
                line = left(line, move)
                if not line:
                    interaction.trace.state.won = True
                    return
                mine = (winning(line) or moves(line))[0]
                line = left(line, mine)
                if not line:
                    return
                turn = await interaction.turn(f"I take {' '.join(map(str, mine))}; left: {' '.join(map(str, line))}")


__all__ = ["KaylesPaysOnceBeatenEnv", "KaylesPaysOnceBeatenTaskset"]
