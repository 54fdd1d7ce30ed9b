"""Tasks and rewards, ported from a v0 environment: a conversation with a game."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf
from pydantic import Field

from ported_template import functions
from ported_template.conversation import completion_of, objects_of
from ported_template.game import Played
from ported_template.rows import rows
from ported_template.v0 import earned, message

SYSTEM_PROMPT: str | None = None


class PortedTemplateData(vf.TaskData):
    """One question with its gold."""

    answer: Any = ""
    info: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Other columns of the rows, to select and to group by; reward functions may ask for them."""


class PortedTemplateState(vf.State):
    """The state of the game, while and after it is played. A stored conversation is played again."""

    played: Any = None


class PortedTemplateTask(vf.Task[PortedTemplateData, PortedTemplateState]):
    """Pays what the reward functions of the older environment pay."""

    @vf.reward(weight=1.0)
    async def component(self, trace: vf.Trace) -> float:
        """A placeholder for the ported components."""
        return await self.earned(functions.component, trace)

    async def earned(self, function: Any, trace: vf.Trace, **objects: Any) -> float:
        """What a function of the older environment pays for this rollout."""
        if trace.state.played is None:
            trace.state.played = await Played(functions.Game(), self.data).replay(completion_of(trace))
        state = trace.state.played
        if state["completion"] is None:
            state["completion"] = completion_of(trace)
        return await earned(function, {**objects_of(self.data, state), **objects})


class PortedTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata or info have one of these values: {"level": [1, 2]}."""


class PortedTemplateTaskset(vf.Taskset[PortedTemplateTask, PortedTemplateConfig]):
    """The questions of one split."""

    def load(self) -> Iterator[PortedTemplateTask]:
        for row in rows(self.config.split):
            known = {**row.get("info", {}), **row.get("metadata", {})}
            if all(known.get(name) in wanted for name, wanted in (self.config.where or {}).items()):
                data = PortedTemplateData(**{"system_prompt": SYSTEM_PROMPT, **row})
                yield PortedTemplateTask(data, self.config.task)


class PortedTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class PortedTemplateEnv(vf.SingleAgentEnv, vf.Env[PortedTemplateEnvConfig]):
    """Plays the game of the older environment: answers each reply, until the game is over. One agent, one trace."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        played = Played(functions.Game(), task.data)
        await played.begin()
        async with agents.agent.interaction(task) as interaction:
            interaction.trace.state.played = played.state
            attempt = await interaction.turn()
            while not attempt.terminated:
                said = await played.heard(message(interaction.trace.last_message.model_dump()))
                if said is None:
                    return
                attempt = await interaction.turn([vf.UserMessage(content=m.content) for m in said])
