"""Model endpoints, and the loopback proxy that stands between them and programs that run environment code."""

from __future__ import annotations

ENTRY = (
    "endpoints",
    "metering",
    "proxy",
    "replies",
)
"""Modules that other packages may import."""
