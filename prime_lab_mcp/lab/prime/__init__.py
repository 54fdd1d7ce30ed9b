"""The door to the platform: `prime` as a subprocess, one function per verb used."""

from prime_lab_mcp.lab.prime.client import Prime

__all__ = ["Prime"]
