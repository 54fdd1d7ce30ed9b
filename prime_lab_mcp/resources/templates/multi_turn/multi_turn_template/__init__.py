"""An environment that answers every attempt and takes the next one."""

from multi_turn_template.taskset import MultiTurnTemplateEnv, MultiTurnTemplateTaskset

__all__ = ["MultiTurnTemplateEnv", "MultiTurnTemplateTaskset"]
