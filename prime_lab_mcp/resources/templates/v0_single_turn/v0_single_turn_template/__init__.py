"""A v0 environment with one question and one reply."""

from v0_single_turn_template.environment import load_environment

__all__ = ["load_environment"]
