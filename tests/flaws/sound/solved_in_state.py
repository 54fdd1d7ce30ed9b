"""The environment notes in the state of the rollout when an attempt was right.

format: multi_turn
generation: v1

Messages alone earn nothing: the reward reads what the environment noted while it played the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A train has {n + 2} wagons with {n + 5} seats each. How many seats is that?", str((n + 2) * (n + 5))


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def number(text: str | None) -> float | None:
    """The finite number that a text is, with thousands commas; None for anything else."""
    found = re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{0,10})?", (text or "").strip().replace(",", "").rstrip("."))
    return float(found[0]) if found else None


class SolvedState(vf.State):
    attempts: int = 0
    solved: bool = False


class SolvedInStateData(vf.TaskData):
    answer: str


class SolvedInStateTask(vf.Task[SolvedInStateData, SolvedState]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return 1.0 - 0.1 * (trace.state.attempts - 1) if trace.state.solved else 0.0


class SolvedInStateConfig(vf.TasksetConfig):
    """Nothing to set."""


class SolvedInStateTaskset(vf.Taskset[SolvedInStateTask, SolvedInStateConfig]):
    def load(self) -> Iterator[SolvedInStateTask]:
        for prompt, answer in rows():
            yield SolvedInStateTask(SolvedInStateData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


class SolvedInStateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class SolvedInStateEnv(vf.SingleAgentEnv, vf.Env[SolvedInStateEnvConfig]):
    """Takes up to three attempts and notes which was right."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as interaction:
            state = interaction.trace.state
            turn = await interaction.turn()
            for _ in range(3):
                state.attempts += 1
                state.solved = number(final(turn.last_reply or "")) == float(task.data.answer)
                if turn.terminated or state.solved or state.attempts == 3:
                    return
                turn = await interaction.turn("That is not right. Try again.")


__all__ = ["SolvedInStateEnv", "SolvedInStateTaskset"]
