"""A single-turn environment whose answers are yes or no."""

from boolean_template.taskset import BooleanTemplateEnv, BooleanTemplateTaskset

__all__ = ["BooleanTemplateEnv", "BooleanTemplateTaskset"]
