"""A v0 environment that answers every attempt and takes the next one."""

from v0_multi_turn_template.environment import load_environment

__all__ = ["load_environment"]
