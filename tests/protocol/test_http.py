"""Streamable HTTP on loopback, in both protocol eras; anything but loopback is refused."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client

pytestmark = pytest.mark.anyio


def serve(tmp_path: Path, address: str) -> subprocess.Popen[str]:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "prime_lab_mcp", "serve", "--http", address]
    command += ["--workspace", str(tmp_path / "workspace"), "--state-dir", str(tmp_path / "state")]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = serve(tmp_path, f"127.0.0.1:{port}")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    server.kill()
    server.wait()


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_tools_are_listed_and_called_over_http(url: str, era: Any) -> None:
    async with Client(url, mode=era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("workflow_status", {})
        guide = await client.read_resource("lab://guide/workflow")
    assert "submit_training" in names
    assert result.structured_content is not None
    assert result.structured_content["status"] == "passed"
    assert "# The workflow" in guide.contents[0].text  # type: ignore[union-attr]


async def test_a_foreign_host_header_is_refused(url: str) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.post(url, json={}, headers={"Host": "evil.example", "Accept": "application/json"})
    assert answer.status_code == 421


def test_an_address_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    server = serve(tmp_path, "0.0.0.0:8123")
    _, errors = server.communicate(timeout=30)
    assert server.returncode == 2
    assert "loopback" in errors
