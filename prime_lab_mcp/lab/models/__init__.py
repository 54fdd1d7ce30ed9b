"""Facts about models: size, architecture, renderer, and evaluations on this machine."""

from prime_lab_mcp.lab.models.readiness import ReadinessPoint, readiness_points, readiness_verdict, readiness_words
from prime_lab_mcp.lab.models.registry import KnownModel, find_model

__all__ = ["KnownModel", "ReadinessPoint", "find_model", "readiness_points", "readiness_verdict", "readiness_words"]

ENTRY = (
    "listing",
    "memory",
    "offered",
    "page",
    "readiness",
    "registry",
)
"""Modules that other packages may import."""
