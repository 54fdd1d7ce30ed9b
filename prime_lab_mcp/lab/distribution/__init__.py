"""Computes statistics of rewards that predict whether GRPO training would learn from a set of rollouts.

All functions are pure: they start no process and read no file.
"""

ENTRY = ("floor", "judge", "next_calls", "rules", "sample", "sample_size", "signal", "summary")
"""Modules that other packages may import."""
