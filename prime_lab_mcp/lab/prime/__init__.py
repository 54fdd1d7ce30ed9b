"""Runs the program `prime`, with one method for each of its commands that the server uses."""

from prime_lab_mcp.lab.prime.client import Prime

__all__ = ["Prime"]

ENTRY = ("answers", "client", "per_call", "pods", "refusals")
"""Modules that other packages may import."""
