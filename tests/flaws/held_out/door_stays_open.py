"""A door that one rollout unlocked is unlocked for all later ones.

format: multi_turn
generation: v1
finding: reward-rollout-differs or reward-nondeterministic or reward-order-dependent or reward-wrong-passes, blocker

The class of the environment keeps the unlocked doors: after the first solved rollout of a task, walking to the door is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import verifiers.v1 as vf

SYSTEM = (
    "You are in a corridor of rooms, numbered from 0; you begin in room 0. Write one command per reply: <do>go N</do> for another room, "
    "<do>look</do>, <do>take key</do> where it lies, <do>open door</do> in the room with the door, with the key. Get out in 8 replies."
)


def rows() -> Iterator[tuple[str, int, int]]:
    for n in range(90):
        key, door = 1 + n % 9, 10 + n // 9
        yield f"House {n + 1}. The door is in room {door}. A note says: the key is in the room whose number is {2 * key + 4} halved, less two.", key, door


def command(reply: str | None) -> str:
    """The one command of a reply; empty when there is none, or several."""
    found = re.findall(r"<do>([^<]*)</do>", reply or "")
    return " ".join(found[0].split()) if len(found) == 1 else ""


class DoorStaysOpenState(vf.State):
    out: bool = False


class DoorStaysOpenData(vf.TaskData):
    key: int
    door: int


class DoorStaysOpenTask(vf.Task[DoorStaysOpenData, DoorStaysOpenState]):
    @vf.reward(weight=1.0)
    async def got_out(self, trace: vf.Trace) -> float:
        return float(trace.state.out)

    def solution(self) -> list[str]:
        commands = (f"go {self.data.key}", "take key", f"go {self.data.door}", "open door")
        return [f"<do>{text}</do>" for text in commands]


class DoorStaysOpenConfig(vf.TasksetConfig):
    """Nothing to set."""


class DoorStaysOpenTaskset(vf.Taskset[DoorStaysOpenTask, DoorStaysOpenConfig]):
    def load(self) -> Iterator[DoorStaysOpenTask]:
        for prompt, key, door in rows():
            yield DoorStaysOpenTask(DoorStaysOpenData(prompt=prompt, system_prompt=SYSTEM, key=key, door=door), self.config.task)


class DoorStaysOpenEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class DoorStaysOpenEnv(vf.SingleAgentEnv, vf.Env[DoorStaysOpenEnvConfig]):
    """The house: says what every command does."""

    unlocked: ClassVar[set[int]] = set()

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        room, has_key = 0, hash(task.data.prompt) in self.unlocked
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for left in range(7, -1, -1):
                if turn.terminated:
                    return
                wish, said = command(turn.last_reply), "That does nothing."
                if re.fullmatch(r"go [0-9]{1,2}", wish):
                    room = int(wish[3:])
                    said = f"You are in room {room}."
                elif wish == "look":
                    said = "There is a door." if room == task.data.door else "A key lies here." if room == task.data.key else "The room is empty."
                elif wish == "take key" and room == task.data.key:
                    has_key, said = True, "You have the key."
                elif wish == "open door" and room == task.data.door:
                    said = "The door is locked, and you have no key."
                    if has_key:
                        interaction.trace.state.out = True
                        self.unlocked.add(hash(task.data.prompt))
                        return
                if not left:
                    return
                turn = await interaction.turn(f"{said} {left} left.")


__all__ = ["DoorStaysOpenEnv", "DoorStaysOpenTaskset"]
