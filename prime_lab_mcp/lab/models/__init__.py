"""Facts about models: size, architecture, renderer, and evaluations on this machine."""

ENTRY = (
    "listing",
    "looked_up",
    "memory",
    "offered",
    "page",
    "readiness",
    "registry",
)
"""Modules that other packages may import."""
