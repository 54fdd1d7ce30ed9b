ENTRY = (
    "child.protocol",
    "child.supervisor",
    "description",
    "faults",
    "host",
    "pool",
    "scoring",
    "whole_rollouts",
    "witness",
)
"""Modules that other packages may import."""
