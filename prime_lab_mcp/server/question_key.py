"""The key that seals a question which travels through the client, kept in the state directory.

In protocol 2026-07-28 a question is the result of a call, and its sealed state comes back with the answer. The process
that gets the answer may be another than the one that asked: several serve one state directory, and any may be started
anew in between.
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
    """Seal with the key of the state directory. Where it can hold none, answers count in this process only."""
    try:
        return RequestStateSecurity(keys=[_shared_key(state_dir / NAME)])
    except OSError:
        return RequestStateSecurity.ephemeral()


def _shared_key(path: Path) -> bytes:
    """Read the key, or make it. Of processes that make it at the same time, all get the one that came first."""
    with suppress(FileNotFoundError):
        key = path.read_bytes()
        if len(key) == BYTES:
            return key
        path.unlink()  # a full disk can cut a file short
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(BYTES))
        with suppress(FileExistsError):
            os.link(made, path)  # unlike a rename, a link replaces nothing
    finally:
        made.unlink(missing_ok=True)
    key = path.read_bytes()
    if len(key) != BYTES:
        raise OSError(f"{path} holds no key")
    return key
