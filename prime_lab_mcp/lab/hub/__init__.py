"""The Environments Hub: looking up published environments and their owners, and publishing to it."""

from __future__ import annotations

ENTRY = (
    "hub_files",
    "lookup",
    "ownership",
    "publish",
    "version_bump",
)
"""Modules that other packages may import."""
