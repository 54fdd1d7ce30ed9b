ENTRY = (
    "child.protocol",
    "child.supervisor",
    "description",
    "faults",
    "host",
    "pool",
    "problems",
    "scoring",
    "scripted_rollouts",
    "stored_rollouts",
    "witness",
)
"""Modules that other packages may import."""
