"""Training configs (prime-rl TOML): reading, judging, writing and migrating them."""

ENTRY = (
    "author",
    "config",
    "context",
    "evidence",
    "examine",
    "older_platforms",
    "own_gpus",
    "packages",
    "plan.choices",
    "registry",
    "resolve",
    "rules.run",
    "rules.step",
    "rules.unproven",
    "schema",
    "warm_up.author",
)
"""Modules that other packages may import."""
