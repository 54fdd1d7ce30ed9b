ENTRY = (
    "child.copying",
    "child.protocol",
    "child.scripted_rollouts",
    "child.solutions",
    "child.supervisor",
    "description",
    "faults",
    "host",
    "pool",
    "scoring",
    "witness",
)
"""Modules that other packages may import."""
