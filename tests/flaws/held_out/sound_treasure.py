"""A treasure hunt with directions; what cannot be read costs a dig and says what a dig looks like.

format: multi_turn
generation: v1

Bisecting both axes finds the treasure in at most four of the five digs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import verifiers.v1 as vf

SYSTEM = (
    "A treasure lies in one field of a board with the columns A to H and the rows 1 to 8. Dig with <dig>C4</dig>. After each dig you "
    "hear in which directions it lies; north is row 8, east is column H. You have 5 digs."
)
COLUMNS = "ABCDEFGH"


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        place = (29 * n + 11) % 64
        yield f"Board {n + 1}. Where do you dig?", f"{COLUMNS[place % 8]}{place // 8 + 1}"


def field(reply: str | None) -> str | None:
    """The one field that a reply digs; None when there is none, or several."""
    found = re.findall(r"<dig>\s*([A-H][1-8])\s*</dig>", reply or "")
    return found[0] if len(found) == 1 else None


def directions(dug: str, treasure: str) -> str:
    vertical = "" if dug[1] == treasure[1] else "north" if dug[1] < treasure[1] else "south"
    sideways = "" if dug[0] == treasure[0] else "east" if dug[0] < treasure[0] else "west"
    return f"Nothing in {dug}. It lies {' and '.join(part for part in (vertical, sideways) if part)}."


class SoundTreasureState(vf.State):
    found: bool = False


class SoundTreasureData(vf.TaskData):
    answer: str


class SoundTreasureTask(vf.Task[SoundTreasureData, SoundTreasureState]):
    @vf.reward(weight=1.0)
    async def found(self, trace: vf.Trace) -> float:
        return float(trace.state.found)

    def solution(self) -> Callable[[list[dict]], str]:
        def play(messages: list[dict]) -> str:
            columns, lines = list(COLUMNS), list("12345678")
            for message in messages:
                heard = re.match(r"Nothing in (.)(.)\. (.*)", str(message["content"] or ""))
                if message["role"] == "user" and heard:
                    column, line, where = heard.groups()
                    lines = [n for n in lines if (n > line if "north" in where else n < line if "south" in where else n == line)]
                    columns = [c for c in columns if (c > column if "east" in where else c < column if "west" in where else c == column)]
            return f"<dig>{columns[len(columns) // 2]}{lines[len(lines) // 2]}</dig>"

        return play


class SoundTreasureConfig(vf.TasksetConfig):
    """Nothing to set."""


class SoundTreasureTaskset(vf.Taskset[SoundTreasureTask, SoundTreasureConfig]):
    def load(self) -> Iterator[SoundTreasureTask]:
        for prompt, answer in rows():
            yield SoundTreasureTask(SoundTreasureData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


class SoundTreasureEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class SoundTreasureEnv(vf.SingleAgentEnv, vf.Env[SoundTreasureEnvConfig]):
    """Says after each dig where the treasure lies."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for left in range(4, -1, -1):
                dug = field(turn.last_reply)
                interaction.trace.state.found = dug == task.data.answer
                if turn.terminated or interaction.trace.state.found or not left:
                    return
                said = directions(dug, task.data.answer) if dug else f"Cannot read that: dig one field, such as <dig>C4</dig>. {left} left."
                turn = await interaction.turn(said)


__all__ = ["SoundTreasureEnv", "SoundTreasureTaskset"]
