"""A single-turn environment whose answers are numbers."""

from numeric_template.taskset import NumericTemplateEnv, NumericTemplateTaskset

__all__ = ["NumericTemplateEnv", "NumericTemplateTaskset"]
