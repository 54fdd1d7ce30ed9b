"""A single-turn environment whose answers are JSON values."""

from json_template.taskset import JsonTemplateEnv, JsonTemplateTaskset

__all__ = ["JsonTemplateEnv", "JsonTemplateTaskset"]
