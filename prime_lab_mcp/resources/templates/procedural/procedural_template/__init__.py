"""A single-turn environment whose tasks a seeded generator makes."""

from procedural_template.taskset import ProceduralTemplateEnv, ProceduralTemplateTaskset

__all__ = ["ProceduralTemplateEnv", "ProceduralTemplateTaskset"]
