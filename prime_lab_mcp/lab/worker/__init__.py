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
)
"""Modules that other packages may import."""
