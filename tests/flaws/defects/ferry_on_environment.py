"""The crossing that is under way is an attribute of the environment, which plays all rollouts.

format: multi_turn
generation: v1
finding: reward-rollout-differs, blocker

Every game sets the attribute anew, so that games one after the other are right. Nobody states a solution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "You load a ferry that carries a limited weight. Load 1 to 9 tons at a time: LOAD N. It must leave full, to the ton."


def tons(reply: str | None) -> int | None:
    """The one load of a reply; None when there is none, or several."""
    found = re.findall(r"\bLOAD ([1-9])\b", reply or "")
    return int(found[0]) if len(found) == 1 else None


class FerryOnEnvironmentState(vf.State):
    full: bool = False


class FerryOnEnvironmentData(vf.TaskData):
    capacity: int


class FerryOnEnvironmentTask(vf.Task[FerryOnEnvironmentData, FerryOnEnvironmentState]):
    @vf.reward(weight=1.0)
    async def full(self, trace: vf.Trace) -> float:
        return float(trace.state.full)


class FerryOnEnvironmentConfig(vf.TasksetConfig):
    """Nothing to set."""


class FerryOnEnvironmentTaskset(vf.Taskset[FerryOnEnvironmentTask, FerryOnEnvironmentConfig]):
    def load(self) -> Iterator[FerryOnEnvironmentTask]:
        for n in range(90):
            data = FerryOnEnvironmentData(prompt=f"Ferry {n + 1} waits.", system_prompt=SYSTEM, capacity=20 + 7 * n % 41)
            yield FerryOnEnvironmentTask(data, self.config.task)


class FerryOnEnvironmentEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=16
    )


class FerryOnEnvironmentEnv(vf.SingleAgentEnv, vf.Env[FerryOnEnvironmentEnvConfig]):
    """Says after each load how much room is left."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        self.room = task.data.capacity
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            while not turn.terminated:
                load = tons(turn.last_reply)
                if load is not None:
                    self.room -= load
                if self.room <= 0:
                    interaction.trace.state.full = self.room == 0
                    return
                turn = await interaction.turn(f"There is room for {self.room} tons.")


__all__ = ["FerryOnEnvironmentEnv", "FerryOnEnvironmentTaskset"]
