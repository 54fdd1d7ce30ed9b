"""Model endpoints, and the loopback proxy between an endpoint and the programs that run environment code."""

from __future__ import annotations

ENTRY = (
    "endpoints",
    "metering",
    "proxy",
    "replies",
)
"""Modules that other packages may import."""
