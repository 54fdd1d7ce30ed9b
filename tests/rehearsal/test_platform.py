"""The program: its ready line, its loopback, its state on disk."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from starlette.testclient import TestClient

from prime_lab_mcp.lab.base.errors import PrimeError
from prime_lab_mcp.lab.base.process import clean_environment, run
from prime_lab_mcp.rehearsal import connection, store
from prime_lab_mcp.rehearsal.app import build
from prime_lab_mcp.rehearsal.store import Store
from tests.rehearsal.conftest import HEADERS


def _get(url: str, path: str) -> Any:
    return httpx.get(url + path, headers=HEADERS, trust_env=False).json()


@pytest.mark.anyio
async def test_two_platforms_on_a_folder_agree_and_a_killed_one_loses_nothing(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    first, url = await connection.start(tmp_path / "state")
    second, other = await connection.start(tmp_path / "state", speed=5.0)
    async with first, second:
        made = (await connection.tell(url, "/api/v1/training/runs", {"config": config}))["runId"]
        os.killpg(first.process.pid, signal.SIGKILL)
        await connection.tell(other, "/rehearsal/clock", {"advance": 3})
        there = _get(other, f"/api/v1/rft/runs/{made}/progress")["latestStep"]
    third, again = await connection.start(tmp_path / "state")
    async with third:
        here = _get(again, f"/api/v1/rft/runs/{made}/progress")["latestStep"]
        hub = _get(again, "/api/v1/environmentshub/")["total_count"]

    assert 7 <= there <= here
    assert hub == 3


@pytest.mark.anyio
async def test_the_ready_line_is_all_that_is_written_and_only_loopback_listens(
    tmp_path: Path,
) -> None:
    child, url = await connection.start(tmp_path / "state")
    async with child:
        port = int(url.rpartition(":")[2])
        assert url == f"http://127.0.0.1:{port}"
        assert _get(url, "/rehearsal/health")["rehearsal"] is True
        rest = b""
        with anyio.move_on_after(0.2):
            rest = await child.process.stdout.receive()  # type: ignore[union-attr]
        addresses = {a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None)}
        for address in addresses - {"127.0.0.1", "::1"}:
            with pytest.raises(OSError, match=r".*"), socket.create_connection((address, port), 1):
                pass

    assert rest == b""


@pytest.mark.anyio
async def test_a_platform_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "state" / "platform.sqlite3").mkdir(parents=True)

    with pytest.raises(PrimeError, match="unable to open database") as raised:
        await connection.start(tmp_path / "state")

    assert raised.value.code == "rehearsal-not-started"


@pytest.mark.anyio
async def test_connecting_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, prime_lab_mcp.rehearsal.connection; "
        "print([m for m in ('starlette', 'uvicorn', 'httpx', 'sqlite3') if m in sys.modules])"
    )
    root = str(Path(connection.__file__).resolve().parents[2])
    done = await run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=clean_environment({"PYTHONPATH": root}),
        timeout=60,
    )

    assert done.stdout.strip() == "[]"


def test_a_held_clock_moves_only_when_it_is_told_and_runs_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "time", clock := SimpleNamespace(now=1000.0, time=lambda: clock.now))
    with TestClient(build(Store(tmp_path / "state")), base_url="http://127.0.0.1:1", headers=HEADERS) as client:

        def told(**body: Any) -> float:
            clock.now += 10
            return float(client.post("/rehearsal/clock", json=body).json()["now"])

        assert [told(), told(advance=5), told(hold=True)] == [1010, 1025, 1035]
        assert [told(), told(advance=7), told(hold=True), told(hold=True, advance=1)] == [1035, 1042, 1042, 1043]
        assert [told(hold=False), told(), told(hold=False)] == [1043, 1053, 1063]
        assert client.post("/rehearsal/clock", json={"hold": "yes"}).status_code == 422


def test_the_variables_lead_nowhere_but_to_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIME_TEAM_ID", "a-real-team")
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.setenv("UV_CACHE_DIR", "/some/cache")

    told = connection.environment("http://127.0.0.1:9", tmp_path / "home")

    addresses = [v for k, v in told.items() if k.endswith("_URL")]
    assert all(a.startswith("http://127.0.0.1:9") for a in addresses)
    assert told["PRIME_API_KEY"].startswith("rehearsal-key")
    assert told["PRIME_TEAM_ID"] == ""
    assert told["HOME"] == str(tmp_path / "home")
    assert told["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert told["UV_CACHE_DIR"] == "/some/cache"


def test_a_name_that_is_not_loopback_is_not_answered(client: TestClient) -> None:
    answer = client.get("/rehearsal/health", headers={"Host": "rebound.example:80"})

    assert answer.status_code == 403


def test_the_rehearsals_own_surface_needs_the_key_too(client: TestClient) -> None:
    answer = client.post("/rehearsal/account", json={"balance_usd": 5}, headers={"Authorization": ""})

    assert answer.status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        {"scope": "nowhere", "kind": "500"},
        {"scope": "http", "kind": "meteor"},
        {"scope": "http", "kind": "500", "path": "("},
    ],
)
def test_a_fault_that_does_not_exist_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    assert client.post("/rehearsal/faults", json=body).status_code == 422
    assert client.get("/rehearsal/faults").json() == {"faults": []}


def test_a_fault_skips_and_counts_as_told(client: TestClient) -> None:
    ordered = {"kind": "503", "path": "/user/whoami", "skip": 1, "times": 2}
    client.post("/rehearsal/faults", json=ordered)

    seen = [client.get("/api/v1/user/whoami").status_code for _ in range(5)]

    assert seen == [200, 503, 503, 200, 200]


def test_what_is_not_rehearsed_says_so(client: TestClient) -> None:
    answer = client.get("/api/v1/pods/")

    assert answer.status_code == 404
    assert "rehearsal" in answer.json()["detail"]


def test_a_request_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")

    def broken_request() -> None:
        with store.session() as session:
            session.put("run", "run_1", {"id": "run_1"})
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        broken_request()

    with store.session() as session:
        assert session.get("run", "run_1") is None
    opened = TestClient(build(store), base_url="http://127.0.0.1:1", headers=HEADERS)
    assert json.loads(opened.get("/rehearsal/health").text)["run"] == 0
