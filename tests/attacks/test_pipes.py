"""What a client does with the pipes of a server over stdio: it never reads, or its person presses Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.server.test_stdio import Server, mentioning

GROWTH = 60_000
"""Kilobytes: the imported tools, and the answers that may wait."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path)
    started.start()
    yield started
    started.process.kill()
    started.process.wait()


def resident(server: Server) -> int:
    """Kilobytes of memory that the process holds."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def test_an_interrupt_ends_the_server_and_its_programs(server: Server, tmp_path: Path) -> None:
    assert server.call(2, "workflow_status")["status"] == "passed"
    os.kill(server.process.pid, signal.SIGINT)
    assert server.process.wait(timeout=60) == 130
    assert mentioning(tmp_path) == []
    assert "Traceback" not in (tmp_path / "stderr").read_text(encoding="utf-8")


def test_a_client_that_closes_the_pipe_of_the_answers_is_no_failure(server: Server, tmp_path: Path) -> None:
    assert server.call(2, "workflow_status")["status"] == "passed"
    assert server.process.stdout is not None
    server.process.stdout.close()
    server.send({"jsonrpc": "2.0", "id": 3, "method": "tools/list"})
    assert server.stop() == 0
    assert "Traceback" not in (tmp_path / "stderr").read_text(encoding="utf-8")


def test_a_client_that_never_reads_makes_the_server_wait_and_not_grow(server: Server) -> None:
    assert server.call(2, "workflow_status")["status"] == "passed"
    before = resident(server)
    requests = [
        {"jsonrpc": "2.0", "id": id, "method": "tools/list"} if id % 2 else
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "workflow_status", "arguments": {}}}
        for id in range(10, 8_000)
    ]  # fmt: skip
    assert server.process.stdin is not None
    stdin = server.process.stdin.fileno()
    sent = 0

    def send() -> None:
        nonlocal sent
        with suppress(OSError):
            for request in requests:
                os.write(stdin, json.dumps(request).encode() + b"\n")
                sent += 1

    threading.Thread(target=send, daemon=True).start()
    stuck, since = -1, time.monotonic()
    while time.monotonic() < since + 1.5:  # until nothing more was taken for that long
        if sent != stuck:
            stuck, since = sent, time.monotonic()
        time.sleep(0.05)
    assert sent < len(requests)
    assert resident(server) - before < GROWTH
    # Whoever reads at last gets every answer.
    assert [server.receive(id)["id"] for id in (11, 13)] == [11, 13]
