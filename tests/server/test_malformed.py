"""A client that sends something that is no JSON-RPC message gets an error, and the server goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.test_stdio import Server

LINES: list[tuple[str, int, Any]] = [
    ("{broken", -32700, None),
    ("[1, 2", -32700, None),
    ("[" * 100_000, -32700, None),
    ('{"jsonrpc": "2.0", "id": 6, "method": "ping", "params": {"a": "\\ud800"}}', -32700, 6),
    ('{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', -32700, None),
    ("17", -32600, None),
    ("[]", -32600, None),
    ('{"jsonrpc": "1.0", "id": 7, "method": "ping"}', -32600, 7),
    ('{"jsonrpc": "2.0", "id": 8, "method": 5}', -32600, 8),
    ('{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": "text"}', -32600, 9),
]


@pytest.mark.parametrize("first", [True, False], ids=["before the handshake", "after it"])
def test_a_line_that_is_no_message_is_answered_with_an_error(tmp_path: Path, first: bool) -> None:
    server = Server(tmp_path)
    try:
        if not first:
            server.start()
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        for line, code, id in LINES:
            server.process.stdin.write(line + "\n")
            server.process.stdin.flush()
            answer = json.loads(server.process.stdout.readline())
            assert (answer["error"]["code"], answer["id"]) == (code, id), line
        server.process.stdin.write('\n  \n{"jsonrpc": "2.0", "id": 99, "result": 5}\n')
        if first:
            server.start()
        assert server.call(100, "workflow_status")["status"] == "passed"
        assert server.stop() == 0
    finally:
        server.process.kill()
        server.process.wait()
