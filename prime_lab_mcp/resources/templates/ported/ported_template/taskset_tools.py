"""Tasks and rewards, ported from a v0 environment: one question, any number of tool calls, one final reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf
from pydantic import Field

from ported_template import functions
from ported_template.conversation import completion_of, objects_of, state_of
from ported_template.rows import rows
from ported_template.tools import PortedTemplateToolset
from ported_template.v0 import earned

SYSTEM_PROMPT: str | None = None
MAX_TURNS: int | None = 10
"""Model calls in one rollout."""


class PortedTemplateData(vf.TaskData):
    """One question with its gold."""

    answer: Any = ""
    info: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Other columns of the rows, to select and to group by; reward functions may ask for them."""


class PortedTemplateTask(vf.Task[PortedTemplateData]):
    """Pays what the reward functions of the older environment pay."""

    @vf.reward(weight=1.0)
    async def component(self, trace: vf.Trace) -> float:
        """A placeholder for the ported components."""
        return await self.earned(functions.component, trace)

    async def earned(self, function: Any, trace: vf.Trace, **objects: Any) -> float:
        """What a function of the older environment pays for this rollout."""
        state = state_of(self.data, completion_of(trace))
        return await earned(function, {**objects_of(self.data, state), **objects})


class PortedTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata or info have one of these values: {"level": [1, 2]}."""
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class PortedTemplateTaskset(vf.Taskset[PortedTemplateTask, PortedTemplateConfig]):
    """The questions of one split."""

    @classmethod
    def toolsets(cls, config: PortedTemplateConfig) -> list[vf.Toolset]:
        """One server for all rollouts."""
        return [PortedTemplateToolset(config.tools)]

    def load(self) -> Iterator[PortedTemplateTask]:
        for row in rows(self.config.split):
            known = {**row.get("info", {}), **row.get("metadata", {})}
            if all(known.get(name) in wanted for name, wanted in (self.config.where or {}).items()):
                data = PortedTemplateData(**{"system_prompt": SYSTEM_PROMPT, **row})
                yield PortedTemplateTask(data, self.config.task)


class PortedTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat with tools, in a local process: no sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=MAX_TURNS
    )


class PortedTemplateEnv(vf.SingleAgentEnv, vf.Env[PortedTemplateEnvConfig]):
    """Makes the plain chat the default."""
