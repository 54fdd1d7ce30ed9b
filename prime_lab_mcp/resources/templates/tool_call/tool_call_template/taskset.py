"""Tasks, rewards and the way they are run: one question, one reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from tool_call_template.answers import FORMAT, ask, gold_of, in_form, score
from tool_call_template.rows import rows

INSTRUCTION = "Decide which of the functions to call, and with which arguments, to do what the user asks."


class ToolCallTemplateData(vf.TaskData):
    """One question with its gold."""

    answer: str
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class ToolCallTemplateTask(vf.Task[ToolCallTemplateData]):
    """Pays for the right answer; a little for any answer in the right form."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the answer of the last reply is right."""
        return score(trace.last_reply, self.data.answer)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply gives one answer in the right form, right or wrong."""
        return float(in_form(trace.last_reply))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the gold can be read; `vf-validate` asks."""
        return gold_of({"question": "", "answer": self.data.answer}) is not None


class ToolCallTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata have one of these values: {"level": [1, 2]}."""


class ToolCallTemplateTaskset(vf.Taskset[ToolCallTemplateTask, ToolCallTemplateConfig]):
    """The questions of one split. Rows whose gold cannot be read are left out."""

    def load(self) -> Iterator[ToolCallTemplateTask]:
        for row in rows(self.config.split):
            metadata = row.get("metadata")
            if not all((metadata or {}).get(name) in wanted for name, wanted in (self.config.where or {}).items()):
                continue
            gold = gold_of(row)
            if gold is None:
                continue
            data = ToolCallTemplateData(
                prompt=ask(row), system_prompt=f"{INSTRUCTION}\n{FORMAT}", answer=gold, metadata=metadata
            )
            yield ToolCallTemplateTask(data, self.config.task)


class ToolCallTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class ToolCallTemplateEnv(vf.SingleAgentEnv, vf.Env[ToolCallTemplateEnvConfig]):
    """Makes the plain chat the default."""
