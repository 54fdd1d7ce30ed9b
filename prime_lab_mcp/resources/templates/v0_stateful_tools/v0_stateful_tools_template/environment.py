"""The environment: a problem of several steps, tools that remember, one final reply."""

from __future__ import annotations

from typing import Any

import verifiers as vf

from v0_stateful_tools_template.answers import FORMAT
from v0_stateful_tools_template.rewards import V0StatefulToolsTemplateParser, rubric
from v0_stateful_tools_template.tasks import tasks
from v0_stateful_tools_template.tools import calculate, recall, store

INSTRUCTION = "Solve the problem step by step. Let the tools calculate, and store what you need again under a name."


class V0StatefulToolsTemplateEnv(vf.StatefulToolEnv):
    """Every rollout has a memory of its own, in its state; tools get it as an argument that the model never sees."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(tools=[], error_formatter=lambda error: f"error: {error}", **kwargs)
        for tool in (store, calculate, recall):
            self.add_tool(tool, args_to_skip=["memory"])

    async def setup_state(self, state: vf.State) -> None:
        state["memory"] = {}

    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Any, state: vf.State, **kwargs: Any
    ) -> dict[str, Any]:
        # Called for unknown tools too, and must not raise: only the call itself is guarded.
        return {**tool_args, "memory": state["memory"]} if tool_name in self.skipped_args else tool_args


def load_environment(max_turns: int = 12) -> vf.Environment:
    """The environment. A rollout that needs more than `max_turns` model calls ends without an answer."""
    parser = V0StatefulToolsTemplateParser()
    return V0StatefulToolsTemplateEnv(
        max_turns=max_turns,
        dataset=tasks("train"),
        eval_dataset=tasks("eval"),
        system_prompt=f"{INSTRUCTION}\n{FORMAT}",
        parser=parser,
        rubric=rubric(parser),
    )
