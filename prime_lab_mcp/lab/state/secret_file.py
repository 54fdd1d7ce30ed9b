"""Keeps a secret in a file of the state directory, the same for all processes that serve the directory."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

BYTES = 32
"""Length of a secret."""


def shared_secret(path: Path) -> bytes:
    """Read the secret, or make it for the owner alone. Raises OSError.

    If several processes make it at once, all use the first one.
    """
    with suppress(FileNotFoundError):
        known = path.read_bytes()
        if len(known) == BYTES:
            return known
        path.unlink()  # a full disk can cut a file short
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(secrets.token_bytes(BYTES))
        with suppress(FileExistsError):
            os.link(temporary, path)  # unlike a rename, a link replaces nothing
    finally:
        temporary.unlink(missing_ok=True)
    known = path.read_bytes()
    if len(known) != BYTES:
        raise OSError(f"{path} holds no secret")
    return known
