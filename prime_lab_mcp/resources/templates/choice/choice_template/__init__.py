"""A single-turn environment of questions with lettered options."""

from choice_template.taskset import ChoiceTemplateEnv, ChoiceTemplateTaskset

__all__ = ["ChoiceTemplateEnv", "ChoiceTemplateTaskset"]
