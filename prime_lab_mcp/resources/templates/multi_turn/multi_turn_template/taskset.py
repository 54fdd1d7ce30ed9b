"""Tasks, rewards and the way they are run: a question, an attempt, a response, the next attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from multi_turn_template.answers import FORMAT, ask, gold_of, in_form, score
from multi_turn_template.rows import rows
from multi_turn_template.selection import selected
from multi_turn_template.turns import MAX_TURNS, RULES, response, worth

INSTRUCTION = "Solve the problem step by step."


class MultiTurnTemplateData(vf.TaskData):
    """One question with its gold."""

    answer: str
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class MultiTurnTemplateTask(vf.Task[MultiTurnTemplateData]):
    """Pays for a right attempt, the more the earlier; a little for attempts in the right form.

    Everything is computed from the messages of the trace, so that stored rollouts can be scored again.
    """

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 for a right first attempt, less by a constant for each wrong one before it."""
        return worth(_replies(trace), self.data.answer)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """Share of the attempts that give one answer in the right form, right or wrong."""
        replies = _replies(trace)
        return sum(map(in_form, replies)) / len(replies) if replies else 0.0

    @vf.metric
    async def attempts(self, trace: vf.Trace) -> float:
        """How many attempts were made."""
        return float(len(_replies(trace)))

    @vf.metric
    async def solved(self, trace: vf.Trace) -> float:
        """1 when an attempt was right, however late."""
        return float(any(score(reply, self.data.answer) for reply in _replies(trace)))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the gold can be read; `vf-validate` asks."""
        return gold_of({"question": "", "answer": self.data.answer}) is not None


def _replies(trace: vf.Trace) -> list[str]:
    return [message.content or "" for message in trace.assistant_messages][:MAX_TURNS]


class MultiTurnTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval", "test"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata have one of these values: {"level": [1, 2]}."""
    num_examples: int | None = None
    """At most so many tasks, drawn with a fixed seed."""


class MultiTurnTemplateTaskset(vf.Taskset[MultiTurnTemplateTask, MultiTurnTemplateConfig]):
    """The questions of one split. Rows whose gold cannot be read are left out."""

    def load(self) -> Iterator[MultiTurnTemplateTask]:
        system = f"{INSTRUCTION}\n{RULES}\n{FORMAT}"
        for row in selected(rows(self.config.split), self.config.where, self.config.num_examples):
            metadata = row.get("metadata")
            gold = gold_of(row)
            if gold is None:
                continue
            data = MultiTurnTemplateData(prompt=ask(row), system_prompt=system, answer=gold, metadata=metadata)
            yield MultiTurnTemplateTask(data, self.config.task)


class MultiTurnTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class MultiTurnTemplateEnv(vf.SingleAgentEnv, vf.Env[MultiTurnTemplateEnvConfig]):
    """Plays the user: takes an attempt, answers it, until it is right or the last. One agent, one trace.

    A harness that cannot continue a conversation (`SUPPORTS_RESUME`) is refused when the rollout starts.
    """

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as interaction:
            attempt = await interaction.turn()
            for left in range(MAX_TURNS - 1, 0, -1):
                if attempt.terminated:
                    return
                said = response(attempt.last_reply, task.data.answer, left)
                if said is None:
                    return
                attempt = await interaction.turn(said)
