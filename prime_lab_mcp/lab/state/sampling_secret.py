"""Draws seeds that code of an environment cannot know beforehand, and that are the same for the same files.

A reward that is right on the tasks that a test tries, and pays anything on all others, has to know which tasks these
are. A seed that is the same everywhere tells. The seeds here come from a secret of the state directory, which confined
code cannot read, and from the fingerprint of the files, so that code which lists the tasks of an earlier test is tried
on others.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

_NAME = "sampling.key"
_BYTES = 32


def secret_seed(state_dir: Path, fingerprint: str) -> int:
    """Return the seed for files with this fingerprint, a number below 2**32. Makes the secret on first use."""
    return int.from_bytes(hashlib.sha256(_secret(state_dir) + fingerprint.encode()).digest()[:4], "big")


def _secret(state_dir: Path) -> bytes:
    path = state_dir / _NAME
    with suppress(FileNotFoundError):
        if len(known := path.read_bytes()) == _BYTES:
            return known
        path.unlink()  # an incomplete file of a full disk
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{_NAME}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        with suppress(FileExistsError):  # Another server made the secret meanwhile.
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
    return path.read_bytes()
