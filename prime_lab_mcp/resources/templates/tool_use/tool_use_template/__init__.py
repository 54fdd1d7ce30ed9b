"""An environment whose questions take tools to answer."""

from tool_use_template.taskset import ToolUseTemplateEnv, ToolUseTemplateTaskset

__all__ = ["ToolUseTemplateEnv", "ToolUseTemplateTaskset"]
