"""Draws seeds that code of an environment cannot know beforehand, and that are the same for the same files.

A reward that is right on the tasks that a test tries, and pays anything on all others, has to know which tasks these
are. A seed that is the same everywhere tells. The seeds here come from a secret of the state directory, which confined
code cannot read, and from the fingerprint of the files, so that code which lists the tasks of an earlier test is tried
on others.
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
