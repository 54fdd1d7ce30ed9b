"""Answers the third wrong attempt with a hint that is not there.

format: multi_turn
generation: v1
finding: reward-rollout-fails, blocker

Every rollout with wrong attempts is lost as an error, so only what is right at once is ever learned from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A shelf has {n} blue books and {2 * n + 3} green ones. How many are that together?", str(3 * n + 3)


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


class SecondTurnRaisesData(vf.TaskData):
    answer: str


class SecondTurnRaisesTask(vf.Task[SecondTurnRaisesData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(number(final(trace.last_reply or "")) == float(self.data.answer))


class SecondTurnRaisesConfig(vf.TasksetConfig):
    """Nothing to set."""


class SecondTurnRaisesTaskset(vf.Taskset[SecondTurnRaisesTask, SecondTurnRaisesConfig]):
    def load(self) -> Iterator[SecondTurnRaisesTask]:
        for prompt, answer in rows():
            yield SecondTurnRaisesTask(SecondTurnRaisesData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


class SecondTurnRaisesEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


HINTS = ["That is not right. Count both colours."]


class SecondTurnRaisesEnv(vf.SingleAgentEnv, vf.Env[SecondTurnRaisesEnvConfig]):
    """Answers a wrong attempt with the next hint."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for attempt in range(3):
                if turn.terminated or number(final(turn.last_reply or "")) == float(task.data.answer):
                    return
                turn = await interaction.turn(HINTS[attempt])


__all__ = ["SecondTurnRaisesEnv", "SecondTurnRaisesTaskset"]
