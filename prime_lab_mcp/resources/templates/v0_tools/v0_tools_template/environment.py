"""The environment: one question, any number of tool calls, one final reply."""

from __future__ import annotations

import verifiers as vf

from v0_tools_template.answers import FORMAT
from v0_tools_template.rewards import V0ToolsTemplateParser, rubric
from v0_tools_template.tasks import tasks
from v0_tools_template.tools import calculate, read_document, search_documents

INSTRUCTION = "Answer the question. Look up every fact with the tools and let them calculate; do not guess."


def load_environment(max_turns: int = 12) -> vf.Environment:
    """The environment. A rollout that needs more than `max_turns` model calls ends without an answer."""
    parser = V0ToolsTemplateParser()
    return vf.ToolEnv(
        tools=[search_documents, read_document, calculate],
        max_turns=max_turns,
        error_formatter=lambda error: f"error: {error}",
        dataset=tasks("train"),
        eval_dataset=tasks("eval"),
        system_prompt=f"{INSTRUCTION}\n{FORMAT}",
        parser=parser,
        rubric=rubric(parser),
    )
