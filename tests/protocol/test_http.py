"""Streamable HTTP: only with the token, from no foreign page, for two clients and two processes, to an orderly end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.server.http import Address, choose_token, parse_address

pytestmark = pytest.mark.anyio


class HttpServer:
    """A server process on a free port, with the address and the token that it printed."""

    def __init__(self, tmp_path: Path, *command: str) -> None:
        (tmp_path / "workspace").mkdir(exist_ok=True)
        places = ["--workspace", str(tmp_path / "workspace"), "--state-dir", str(tmp_path / "state")]
        serve = command or ("prime_lab_mcp", "serve", "--http", "127.0.0.1:0", *places)
        self.process = subprocess.Popen(
            [sys.executable, "-m", *serve],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.url = self.process.stderr.readline().split()[-1]
        self.token = self.process.stderr.readline().split()[-1]
        self.page = self.process.stderr.readline().split()[-1] if not command else ""

    def client(self, era: Any = "auto") -> AbstractAsyncContextManager[Client]:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {self.token}"}, timeout=60)
        return Client(streamable_http_client(self.url, http_client=http), mode=era)

    def end(self) -> tuple[int, float, str]:
        """Stop the server. Returns its exit code, the seconds that it took, and what it wrote."""
        since = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, time.monotonic() - since, out + err


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    server = HttpServer(tmp_path_factory.mktemp("http"))
    yield server
    server.process.kill()
    server.process.wait()


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_tools_are_listed_and_called_over_http(server: HttpServer, era: Any) -> None:
    async with server.client(era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("workflow_status", {})
        guide = await client.read_resource("lab://guide/workflow")
    assert "submit_training" in names
    assert result.structured_content is not None
    assert result.structured_content["status"] == "passed"
    assert "# The workflow" in guide.contents[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer x", "Basic TOKEN", "TOKEN", "bearer  TOKEN"])
async def test_without_the_token_nothing_is_answered(server: HttpServer, authorization: str | None) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    if authorization is not None:
        headers["Authorization"] = authorization.replace("TOKEN", server.token)
    async with httpx.AsyncClient() as client:
        answers = [
            await client.post(server.url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers),
            await client.get(server.url, headers=headers),
            await client.delete(server.url, headers=headers),
            await client.get(server.url.replace("/mcp", "/other"), headers=headers),
            await client.get(server.url.replace("/mcp", "/api/workspace"), headers=headers),
        ]
    assert [answer.status_code for answer in answers] == [401] * 5
    assert all(server.token not in answer.text for answer in answers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
    ],
)
async def test_foreign_hosts_and_pages_are_refused(server: HttpServer, headers: dict[str, str], status: int) -> None:
    headers = {"Authorization": f"Bearer {server.token}", "Accept": "application/json", **headers}
    async with httpx.AsyncClient() as client:
        answer = await client.post(server.url, json={}, headers=headers)
    assert answer.status_code == status


async def test_a_body_of_five_mebibytes_is_refused(server: HttpServer) -> None:
    headers = {"Authorization": f"Bearer {server.token}", "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient() as client:
        answer = await client.post(server.url, json={"x": "y" * 5 * 2**20}, headers=headers)
    assert answer.status_code == 413


async def test_health_is_answered_to_everybody_and_says_nothing_else(server: HttpServer) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.get(server.url.replace("/mcp", "/healthz"))
    assert (answer.status_code, set(answer.json())) == (200, {"status", "version"})


async def test_the_page_is_served_beside_the_protocol(server: HttpServer) -> None:
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {server.token}"}) as client:
        shell = await client.get(server.page, headers={"Authorization": ""})
        data = await client.get(server.url.replace("/mcp", "/api/workspace"))
        foreign = await client.get(server.url.replace("/mcp", "/api/workspace"), headers={"Host": "evil.example"})
    assert (shell.status_code, "<title>prime-lab</title>" in shell.text, server.token in shell.text) == (
        200,
        True,
        False,
    )
    assert (data.status_code, data.json()["name"]) == (200, "workspace")
    assert foreign.status_code == 403
    assert server.page == server.url.replace("/mcp", f"/#token={server.token}")


async def test_two_clients_and_two_processes_see_one_ledger(tmp_path: Path) -> None:
    first, second = HttpServer(tmp_path), HttpServer(tmp_path)
    try:
        folder = tmp_path / "workspace" / "environments" / "broken"
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text("[project\n", encoding="utf-8")
        assert first.token != second.token
        async with first.client() as one, first.client("legacy") as two, second.client() as three:
            clients = (one, two, three)
            await one.call_tool("check_environment", {"environment": "broken"})
            async with anyio.create_task_group() as tasks:
                for client in clients:
                    tasks.start_soon(client.call_tool, "workflow_status", {"environment": "broken"})
            results = [await client.call_tool("workflow_status", {"environment": "broken"}) for client in clients]
        steps = [result.structured_content["data"]["environments"][0] for result in results]  # type: ignore[index]
        assert steps[0] == steps[1] == steps[2]
        assert "failed" in str(steps[0])
    finally:
        ends = [server.end() for server in (first, second)]
    assert [code for code, _, _ in ends] == [-signal.SIGTERM] * 2


async def post_call(server: HttpServer, **params: Any) -> dict[str, Any]:
    """Call `spend` in protocol 2026-07-28, for a client that can ask its user. Return the message that answers."""
    version = "2026-07-28"
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    headers = {"Authorization": f"Bearer {server.token}", "Accept": "application/json, text/event-stream"}
    headers |= {"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "spend"}
    params |= {"name": "spend", "arguments": {"amount": 4.0}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(server.url, headers=headers, json=message)
    lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith(("data:", "{"))]
    messages: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return next(one for one in messages if one.get("id") == 1)


async def test_an_answer_counts_in_another_process_than_the_one_that_asked(tmp_path: Path) -> None:
    state = tmp_path / "state"
    command = ("tests.protocol.http_toys", str(tmp_path / "workspace"), str(state))
    asking = HttpServer(tmp_path, *command)
    asked = (await post_call(asking))["result"]
    asking.end()
    answering = HttpServer(tmp_path, *command)
    try:
        [question] = asked["inputRequests"]
        answers = {question: {"action": "accept", "content": {"approve": True}}}
        done = await post_call(answering, inputResponses=answers, requestState=asked["requestState"])
        assert done["result"]["structuredContent"]["status"] == "passed"
        assert (state / "spent").exists()
        forged = await post_call(answering, inputResponses=answers, requestState=asked["requestState"][:-4] + "AAAA")
        assert forged["error"]["code"] == -32602
    finally:
        answering.end()


async def test_a_stop_ends_open_streams_and_prints_no_traceback(tmp_path: Path) -> None:
    server = HttpServer(tmp_path)
    headers = {"Authorization": f"Bearer {server.token}", "Accept": "application/json, text/event-stream"}
    async with server.client("legacy") as client, httpx.AsyncClient(timeout=30) as stream:
        await client.list_tools()
        async with stream.stream("GET", server.url, headers=headers):
            code, seconds, wrote = await anyio.to_thread.run_sync(server.end)
    assert code == -signal.SIGTERM
    assert seconds < 30
    assert "Traceback" not in wrote
    assert server.token not in wrote


async def test_a_stop_waits_for_what_is_being_sent(tmp_path: Path) -> None:
    state = tmp_path / "state"
    server = HttpServer(tmp_path, "tests.protocol.slow_sender", str(tmp_path / "workspace"), str(state))

    async def call() -> None:
        with suppress(Exception):  # the answer may be lost; the sending may not
            async with server.client() as client:
                await client.call_tool("spend", {"yes": True})

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        with anyio.fail_after(60):
            while not (state / "begun").exists():
                await anyio.sleep(0.02)
        assert not (state / "sent").exists()
        _, _, wrote = await anyio.to_thread.run_sync(server.end)
        tasks.cancel_scope.cancel()
    assert (state / "sent").exists(), wrote


def refused(tmp_path: Path, *options: str) -> str:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "prime_lab_mcp", "serve", "--workspace", str(tmp_path / "workspace")]
    command += ["--state-dir", str(tmp_path / "state"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def test_an_address_that_is_taken_is_a_clear_refusal(server: HttpServer, tmp_path: Path) -> None:
    taken = re.sub(r".*//|/mcp", "", server.url)
    assert "cannot be served" in refused(tmp_path, "--http", taken)


@pytest.mark.parametrize("text", ["8000", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", ":99999", "a b:1", "http://x:1"])
def test_what_is_no_address_is_a_clear_refusal(text: str) -> None:
    with pytest.raises(BadInput, match="no address HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "host", "loopback"),
    [
        (":80", "127.0.0.1", True),
        ("[::1]:80", "::1", True),
        ("localhost:80", "localhost", True),
        ("0.0.0.0:80", "0.0.0.0", False),
    ],
)
def test_addresses(text: str, host: str, loopback: bool) -> None:
    address = parse_address(text)
    assert (address.host, address.port, address.on_loopback) == (host, 80, loopback)


def test_off_loopback_a_token_file_is_needed(tmp_path: Path) -> None:
    assert "--http-token-file" in refused(tmp_path, "--http", "0.0.0.0:0")


@pytest.mark.parametrize(
    ("token", "mode", "says"),
    [
        ("x" * 40, 0o644, "others can read"),
        ("short", 0o600, "not one word"),
        ("a b" * 20, 0o600, "not one word"),
        ("é" * 40, 0o600, "cannot be read"),
    ],
)
def test_a_token_file_that_does_not_protect_is_refused(tmp_path: Path, token: str, mode: int, says: str) -> None:
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")
    file.chmod(mode)
    with pytest.raises(BadInput, match=says):
        choose_token(Address("0.0.0.0", 80), str(file), tmp_path / "workspace")


def test_a_token_file_in_the_workspace_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x" * 40 + "\n", encoding="utf-8")
    file.chmod(0o600)
    with pytest.raises(BadInput, match="lies in the workspace"):
        choose_token(Address("127.0.0.1", 80), str(file), tmp_path)
    assert choose_token(Address("127.0.0.1", 80), str(file), tmp_path / "workspace") == "x" * 40


def test_tokens_of_two_starts_differ(tmp_path: Path) -> None:
    address = Address("127.0.0.1", 80)
    assert choose_token(address, None, tmp_path) != choose_token(address, None, tmp_path)
