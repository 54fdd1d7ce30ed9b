"""Tasks, reward and the way they are run: a change in words, statements that make it, the database at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf

from stateful_tools_template import database
from stateful_tools_template.generator import changes
from stateful_tools_template.rollout import StatefulToolsTemplateData, StatefulToolsTemplateState
from stateful_tools_template.tools import StatefulToolsTemplateToolset

INSTRUCTION = (
    "You keep the records of a workshop that lends tools. Make the change that you are told about in its database, "
    "with the tool run_sql, and change nothing else. When it is made, say so in a sentence."
)
TABLES = f"These are the tables:\n\n{database.SCHEMA}\nDays are texts such as 2025-03-31."
MAX_TURNS = 8
"""Model calls in one rollout. One that needs more counts as truncated; what it changed by then is scored."""


class StatefulToolsTemplateTaskConfig(vf.TaskConfig):
    """Where the tool server of a rollout runs."""

    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class StatefulToolsTemplateTask(
    vf.Task[StatefulToolsTemplateData, StatefulToolsTemplateState, StatefulToolsTemplateTaskConfig]
):
    """Pays for the right database at the end, whatever led to it and whatever is said."""

    @classmethod
    def toolsets(cls, config: StatefulToolsTemplateTaskConfig) -> list[vf.Toolset]:
        """A server for every rollout, because the tool changes something."""
        return [StatefulToolsTemplateToolset(config.tools)]

    def solution(self) -> list[dict[str, Any]]:
        """How the task is solved: the statements, then a look. `test_reward` plays this with the real tool."""
        look = "SELECT count(*) FROM loans"
        calls = [{"name": "run_sql", "arguments": {"sql": sql}} for sql in (*self.data.statements, look)]
        return [
            *({"role": "assistant", "tool_calls": [call]} for call in calls),
            {"role": "assistant", "content": "The change is made."},
        ]

    @vf.reward(weight=1.0)
    async def right_state(self, trace: vf.Trace) -> float:
        """1 when every table holds exactly the rows that the change leads to."""
        return float(trace.state.fingerprint == self.data.goal)

    @vf.metric
    async def statements(self, trace: vf.Trace) -> float:
        """How many statements worked. As a reward it would teach to run statements for the sake of it."""
        return float(trace.state.statements)

    @vf.metric
    async def failed_statements(self, trace: vf.Trace) -> float:
        """How many statements came back with an error."""
        return float(trace.state.failed)

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the statements lead to the goal, and doing nothing does not; `vf-validate` asks."""
        goal: str = self.data.goal
        db = database.database(self.data.workshop)
        before = database.fingerprint(db)
        for sql in self.data.statements:
            database.run(db, sql)
        return before != goal == database.fingerprint(db)


class StatefulToolsTemplateConfig(vf.TasksetConfig):
    """Which tasks, how hard and how many."""

    split: Literal["train", "eval"] = "train"
    level: Literal["all", "easy", "medium", "hard"] = "all"
    size: int = 240
    seed: int = 0
    task: StatefulToolsTemplateTaskConfig = StatefulToolsTemplateTaskConfig()


class StatefulToolsTemplateTaskset(vf.Taskset[StatefulToolsTemplateTask, StatefulToolsTemplateConfig]):
    """Generated changes. The workshops of the two splits differ."""

    def load(self) -> Iterator[StatefulToolsTemplateTask]:
        for change in changes(self.config.split, self.config.level, self.config.size, self.config.seed):
            data = StatefulToolsTemplateData(
                prompt=f"Workshop: {change.workshop}\n\n{change.text}",
                system_prompt=f"{INSTRUCTION}\n\n{TABLES}",
                workshop=change.workshop,
                level=change.level,
                statements=list(change.statements),
                goal=change.goal,
            )
            yield StatefulToolsTemplateTask(data, self.config.task)


class StatefulToolsTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat with tools, in a local process: no sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=MAX_TURNS
    )


class StatefulToolsTemplateEnv(vf.SingleAgentEnv, vf.Env[StatefulToolsTemplateEnvConfig]):
    """Makes the plain chat the default."""
