"""Tasks, rewards and the way they are run: one question, any number of tool calls, one final reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from tool_use_template.answers import FORMAT, ask, gold_of, in_form, score
from tool_use_template.rows import rows
from tool_use_template.selection import selected
from tool_use_template.tools import ToolUseTemplateToolset

INSTRUCTION = "Answer the question. Look up every fact with the tools and let them calculate; do not guess."
MAX_TURNS = 12
"""Model calls in one rollout. One that needs more ends without an answer and counts as truncated."""


class ToolUseTemplateData(vf.TaskData):
    """One question with its gold."""

    answer: str
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class ToolUseTemplateTask(vf.Task[ToolUseTemplateData]):
    """Pays for the right final answer, however it was found; a little for any answer in the right form."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the answer of the last reply is right."""
        return score(trace.last_reply, self.data.answer)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply gives one answer in the right form, right or wrong."""
        return float(in_form(trace.last_reply))

    @vf.metric
    async def tool_calls(self, trace: vf.Trace) -> float:
        """How many tools the model called."""
        return float(sum(len(message.tool_calls or ()) for message in trace.assistant_messages))

    @vf.metric
    async def failed_tool_calls(self, trace: vf.Trace) -> float:
        """How many of the calls came back with an error: refused by the tool, unknown, or with broken arguments."""
        results = [message.content for message in trace.tool_messages]
        return float(sum(isinstance(text, str) and text.lower().startswith("error") for text in results))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the gold can be read; `vf-validate` asks."""
        return gold_of({"question": "", "answer": self.data.answer}) is not None


class ToolUseTemplateConfig(vf.TasksetConfig):
    """Which split to load, and where the tools run."""

    split: Literal["train", "eval", "test"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata have one of these values: {"level": [1, 2]}."""
    num_examples: int | None = None
    """At most so many tasks, drawn with a fixed seed."""
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class ToolUseTemplateTaskset(vf.Taskset[ToolUseTemplateTask, ToolUseTemplateConfig]):
    """The questions of one split. Rows whose gold cannot be read are left out."""

    @classmethod
    def toolsets(cls, config: ToolUseTemplateConfig) -> list[vf.Toolset]:
        """One server for all rollouts; a toolset with state per rollout goes into `Task.toolsets` instead."""
        return [ToolUseTemplateToolset(config.tools)]

    def load(self) -> Iterator[ToolUseTemplateTask]:
        for row in selected(rows(self.config.split), self.config.where, self.config.num_examples):
            metadata = row.get("metadata")
            gold = gold_of(row)
            if gold is None:
                continue
            data = ToolUseTemplateData(
                prompt=ask(row), system_prompt=f"{INSTRUCTION}\n{FORMAT}", answer=gold, metadata=metadata
            )
            yield ToolUseTemplateTask(data, self.config.task)


class ToolUseTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat with tools, in a local process: no sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=MAX_TURNS
    )


class ToolUseTemplateEnv(vf.SingleAgentEnv, vf.Env[ToolUseTemplateEnvConfig]):
    """Makes the plain chat the default."""
