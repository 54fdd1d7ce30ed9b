"""A single-turn environment whose answers are programs, run against tests."""

from code_template.taskset import CodeTemplateEnv, CodeTemplateTaskset

__all__ = ["CodeTemplateEnv", "CodeTemplateTaskset"]
