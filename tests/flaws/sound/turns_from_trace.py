"""Up to three attempts, read from the trace.

format: multi_turn
generation: v1

The last attempt decides, and each wrong one before it takes off a tenth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


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


class TurnsFromTraceData(vf.TaskData):
    answer: str


class TurnsFromTraceTask(vf.Task[TurnsFromTraceData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        attempts = [number(final(message.content or "")) for message in trace.assistant_messages][:3]
        if not attempts or attempts[-1] != float(self.data.answer):
            return 0.0
        return 1.0 - 0.1 * (len(attempts) - 1)


class TurnsFromTraceConfig(vf.TasksetConfig):
    """Nothing to set."""


class TurnsFromTraceTaskset(vf.Taskset[TurnsFromTraceTask, TurnsFromTraceConfig]):
    def load(self) -> Iterator[TurnsFromTraceTask]:
        for prompt, answer in rows():
            yield TurnsFromTraceTask(
                TurnsFromTraceData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


class TurnsFromTraceEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class TurnsFromTraceEnv(vf.SingleAgentEnv, vf.Env[TurnsFromTraceEnvConfig]):
    """Says that an attempt was wrong, and takes the next one."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for _ in range(2):
                if turn.terminated or number(final(turn.last_reply or "")) == float(task.data.answer):
                    return
                turn = await interaction.turn("That is not right. Try again.")


__all__ = ["TurnsFromTraceEnv", "TurnsFromTraceTaskset"]
