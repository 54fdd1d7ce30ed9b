"""The Environments Hub: what is published there, whose it is, and publishing to it."""

from __future__ import annotations

ENTRY = (
    "hub_files",
    "lookup",
    "ownership",
    "publish",
    "version_bump",
)
"""Modules that other packages may import."""
