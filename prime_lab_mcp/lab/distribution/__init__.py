"""Computes statistics of rewards that predict whether GRPO training would learn from a set of rollouts.

All functions are pure: they start no process and read no file.
"""

from prime_lab_mcp.lab.distribution.floor import sampled_golds
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.summary import ComponentSummary, Distribution, DistributionCheck, UsableGroups

__all__ = ["ComponentSummary", "Distribution", "DistributionCheck", "UsableGroups", "judge_rollouts", "sampled_golds"]

ENTRY = ("floor", "judge", "next_calls", "rules", "sample", "sample_size", "signal", "summary")
"""Modules that other packages may import."""
