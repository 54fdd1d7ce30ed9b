"""A single-turn environment that asks for the class of a text."""

from classification_template.taskset import ClassificationTemplateEnv, ClassificationTemplateTaskset

__all__ = ["ClassificationTemplateEnv", "ClassificationTemplateTaskset"]
