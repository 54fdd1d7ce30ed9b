"""Provides the key that seals questions which travel through the client. The key is stored in the state directory.

In protocol 2026-07-28 a question is the result of a call, and its sealed state comes back with the answer. Another
process than the one that asked may get the answer, because several processes can serve one state directory, and each
can be restarted in between.
"""

from __future__ import annotations

from pathlib import Path

from mcp.server.request_state import RequestStateSecurity

from prime_lab_mcp.lab.state.secret_file import shared_secret

NAME = "questions.key"


def question_security(state_dir: Path) -> RequestStateSecurity:
    """Return the SDK's sealing with the key of the state directory.

    If the key cannot be stored, an ephemeral key is used, and answers count only in this process.
    """
    try:
        return RequestStateSecurity(keys=[shared_secret(state_dir / NAME)])
    except OSError:
        return RequestStateSecurity.ephemeral()
