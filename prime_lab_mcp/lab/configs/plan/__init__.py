"""Chooses every value of a new config and says why: from what the caller asked, what evals measured, and recipes."""

from prime_lab_mcp.lab.configs.plan.choices import DEFAULT_MODEL, Choices, SourceChoice, Value, refuse_name
from prime_lab_mcp.lab.configs.plan.decide import Plan, plan
from prime_lab_mcp.lab.configs.plan.renderer import near_models
from prime_lab_mcp.lab.distribution.pools import Curriculum

__all__ = [
    "DEFAULT_MODEL",
    "Choices",
    "Curriculum",
    "Plan",
    "SourceChoice",
    "Value",
    "near_models",
    "plan",
    "refuse_name",
]
