"""A single-turn environment whose answers are mathematics in LaTeX."""

from math_template.taskset import MathTemplateEnv, MathTemplateTaskset

__all__ = ["MathTemplateEnv", "MathTemplateTaskset"]
