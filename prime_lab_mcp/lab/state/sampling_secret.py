"""Draws the seed with which a test samples tasks: environment code cannot know it, and equal files get an equal seed.

A reward could be right on the tasks that a test tries and pay anything on all others. For that, the reward must know
the tried tasks, and a seed that is the same on every machine would give them away. The seed is therefore computed from
a secret of the state directory, which confined code cannot read, and from the fingerprint of the files. Code that lists
the tasks of an earlier test has another fingerprint, and is tried on other tasks.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from prime_lab_mcp.lab.state.secret_file import shared_secret

_NAME = "sampling.key"


def secret_seed(state_dir: Path, fingerprint: str) -> int:
    """Return the seed for files with this fingerprint, a number below 2**32. Makes the secret on first use."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    secret = shared_secret(state_dir / _NAME)
    return int.from_bytes(hashlib.sha256(secret + fingerprint.encode()).digest()[:4], "big")
