"""Provides the key that seals questions which travel through the client. The key is stored in the state directory.

In protocol 2026-07-28 a question is the result of a call, and its sealed state comes back with the answer. Another
process than the one that asked may get the answer, because several processes can serve one state directory, and each
can be restarted in between.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from mcp.server.request_state import RequestStateSecurity

NAME = "questions.key"
BYTES = 32


def question_security(state_dir: Path) -> RequestStateSecurity:
    """Return the SDK's sealing with the key of the state directory.

    If the key cannot be stored, an ephemeral key is used, and answers count only in this process.
    """
    try:
        return RequestStateSecurity(keys=[_shared_key(state_dir / NAME)])
    except OSError:
        return RequestStateSecurity.ephemeral()


def _shared_key(path: Path) -> bytes:
    """Read the key, or make it. If several processes make it at the same time, all use the first one."""
    with suppress(FileNotFoundError):
        key = path.read_bytes()
        if len(key) == BYTES:
            return key
        path.unlink()  # a full disk can cut a file short
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(BYTES))
        with suppress(FileExistsError):
            os.link(temporary, path)  # unlike a rename, a link replaces nothing
    finally:
        temporary.unlink(missing_ok=True)
    key = path.read_bytes()
    if len(key) != BYTES:
        raise OSError(f"{path} holds no key")
    return key
