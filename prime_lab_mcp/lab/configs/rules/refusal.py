"""The finding for what a validator of prime-rl refuses."""

from __future__ import annotations

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding


def prime_rl_refuses(code: Code, why: str, fix: str, where: str) -> Finding:
    """A blocker. `why` completes "prime-rl refuses this:"."""
    return Finding(code, "blocker", f"prime-rl refuses this: {why}.", fix, where)
