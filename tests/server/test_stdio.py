"""The server as a process: clean stdout, light imports, no orphans, and evidence that outlives it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.server import stdio
from prime_lab_mcp.server.stdio import INTERRUPTED, MOST_UNREAD, BoundedWrites

HEAVY = (
    "verifiers",
    "datasets",
    "numpy",
    "pyarrow",
    "torch",
    "transformers",
    "openai",
    "pandas",
    "prime_cli",
    "scipy",
    "matplotlib",
    "PIL",
)
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


class Server:
    """A server process spoken to in raw JSON-RPC, so that every byte of stdout is seen."""

    def __init__(self, tmp_path: Path, *python: str) -> None:
        (tmp_path / "workspace").mkdir(exist_ok=True)
        command = [sys.executable, *python, "-m", "prime_lab_mcp", "serve"]
        command += ["--workspace", str(tmp_path / "workspace"), "--state-dir", str(tmp_path / "state")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(tmp_path / "stderr").open("w"), text=True
        )
        self.lines: list[str] = []

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def receive(self, id: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == id:
                return message
        raise AssertionError("the server closed its stdout")

    def start(self) -> None:
        self.send(HELLO)
        self.receive(1)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, id: int, name: str, **arguments: Any) -> dict[str, Any]:
        self.send(
            {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        )
        return dict(self.receive(id)["result"]["structuredContent"])

    def stop(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=20)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    made.start()
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def test_the_first_answers_import_nothing_heavy(tmp_path: Path) -> None:
    server = Server(tmp_path, "-X", "importtime")
    server.start()
    server.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert len(server.receive(2)["result"]["tools"]) > 15
    assert server.call(3, "workflow_status")["status"] == "passed"
    assert server.stop() == 0
    trace = (tmp_path / "stderr").read_text(encoding="utf-8")
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in trace.splitlines() if "import time:" in line}
    assert "mcp" in imported
    assert imported.isdisjoint(HEAVY)


def test_every_line_of_stdout_is_json_rpc_and_stdin_eof_ends_the_server(server: Server) -> None:
    server.call(2, "workflow_status")
    server.call(3, "read_reference", topic="guide/workflow")
    assert server.stop() == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in server.lines)


def test_two_servers_on_one_ledger_see_the_same_workspace(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / "environments" / "made"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "made"\nversion = "0.1.0"\n', encoding="utf-8")
    other = Server(tmp_path)
    other.start()
    found = [s.call(9, "workflow_status")["data"]["environments"][0] for s in (server, other)]
    assert found[0] == found[1]
    assert other.stop() == 0


@pytest.mark.cold
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_server_leaves_no_process_and_keeps_what_was_recorded(
    server: Server, tmp_path: Path, kind: signal.Signals
) -> None:
    folder = tmp_path / "workspace" / "environments" / "broken"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "broken"\nversion = "0.1.0"\n', encoding="utf-8")
    (folder / "broken.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    assert server.call(2, "check_environment", environment="broken")["status"] == "failed"
    os.kill(server.process.pid, kind)
    server.process.wait(timeout=20)
    deadline = time.monotonic() + 10
    while mentioning(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert mentioning(tmp_path) == []
    again = Server(tmp_path)
    again.start()
    evidence = again.call(2, "workflow_status")["data"]["environments"][0]["evidence"]
    assert {e["tool"]: e["state"] for e in evidence}["check_environment"] == "failed"
    assert again.stop() == 0


def mentioning(path: Path) -> list[str]:
    """Command lines of live processes that name a folder of this test."""
    found = []
    for entry in (process / "cmdline" for process in Path("/proc").glob("[0-9]*")):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if re.search(re.escape(str(path)) + r"(/|\s|$)", line):
            found.append(line)
    return found


class Stuck:
    """A stream of a client that does not read until `reads` is set."""

    def __init__(self) -> None:
        self.reads = anyio.Event()

    async def send(self, message: Any) -> None:
        await self.reads.wait()


@pytest.mark.anyio
async def test_no_message_is_read_while_many_answers_wait_for_the_client() -> None:
    client = Stuck()
    writes = BoundedWrites(client)
    async with anyio.create_task_group() as tasks:
        for number in range(MOST_UNREAD):
            tasks.start_soon(writes.send, number)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.05) as waiting:
            await writes.room()
        assert waiting.cancelled_caught
        client.reads.set()
        with anyio.fail_after(5):
            await writes.room()


@pytest.mark.anyio
async def test_an_interrupt_ends_what_runs_and_a_second_one_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[int] = []
    said: list[str] = []

    @asynccontextmanager
    async def streams() -> AsyncIterator[tuple[None, None]]:
        yield None, None

    async def run(read: Any, write: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):  # such as a push
                said.append(f"finishing, left {left}")
                os.kill(os.getpid(), signal.SIGINT)
                while not left:
                    await anyio.sleep(0.01)

    monkeypatch.setattr("mcp.server.stdio.stdio_server", streams)
    monkeypatch.setattr(stdio.os, "_exit", left.append)
    monkeypatch.setattr(stdio.logging, "shutdown", lambda: None)
    try:
        await stdio.serve_stdio(run)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    assert said == ["finishing, left []"]
    assert left == [INTERRUPTED, INTERRUPTED]
