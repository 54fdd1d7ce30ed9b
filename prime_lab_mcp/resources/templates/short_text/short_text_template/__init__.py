"""A single-turn environment whose answers are short texts."""

from short_text_template.taskset import ShortTextTemplateEnv, ShortTextTemplateTaskset

__all__ = ["ShortTextTemplateEnv", "ShortTextTemplateTaskset"]
