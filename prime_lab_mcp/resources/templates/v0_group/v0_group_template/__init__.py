"""A v0 environment made of two, each with its own rubric."""

from v0_group_template.environment import load_environment

__all__ = ["load_environment"]
