"""A single-turn environment whose answers are function calls, written as text."""

from tool_call_template.taskset import ToolCallTemplateEnv, ToolCallTemplateTaskset

__all__ = ["ToolCallTemplateEnv", "ToolCallTemplateTaskset"]
