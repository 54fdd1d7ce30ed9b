"""Statistics of rewards: what a set of rollouts says about whether GRPO would learn. Pure functions, no processes."""

from prime_lab_mcp.lab.distribution.floor import golds_of
from prime_lab_mcp.lab.distribution.judge import judge
from prime_lab_mcp.lab.distribution.summary import Check, Component, Distribution, Usable

__all__ = ["Check", "Component", "Distribution", "Usable", "golds_of", "judge"]
