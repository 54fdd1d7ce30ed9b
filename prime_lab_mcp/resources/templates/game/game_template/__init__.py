"""A game against an opponent, with a secret that both look for."""

from game_template.taskset import GameTemplateEnv, GameTemplateTaskset

__all__ = ["GameTemplateEnv", "GameTemplateTaskset"]
