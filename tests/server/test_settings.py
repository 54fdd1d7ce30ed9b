"""The settings that a person starts a server with are refused in words where they cannot be used."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import uvicorn

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import NamedEndpoint, Settings
from prime_lab_mcp.server import main
from prime_lab_mcp.server.main import LogFile, open_lab, settings
from prime_lab_mcp.server.rehearsing import RehearsalPlatform


def test_a_workspace_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no folder"):
        settings(str(tmp_path / "none"), str(tmp_path / "state"))


def test_a_state_directory_in_the_workspace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="could edit the evidence"):
        settings(str(tmp_path), str(tmp_path / "state"))


def test_a_state_directory_that_may_not_be_used_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workspace").mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may use every folder
    with pytest.raises(BadInput, match="Permission denied"):
        settings(str(tmp_path / "workspace"), str(tmp_path / "state"))


def test_a_command_to_notify_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    with pytest.raises(BadInput):
        settings(str(tmp_path / "workspace"), str(tmp_path / "state"), notify="no-such-command-anywhere")


def test_named_endpoints_are_those_of_the_command_line_and_of_the_state_directory(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    chosen = settings(
        str(tmp_path / "workspace"), str(tmp_path / "state"), endpoints=("mine=http://127.0.0.1:9/v1|MY_KEY",)
    )
    assert chosen.endpoints == (NamedEndpoint("mine", "http://127.0.0.1:9/v1", "MY_KEY"),)
    assert chosen.platform == "prime"


def test_a_rehearsal_starts_no_platform_before_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    lab = open_lab(settings(str(tmp_path / "workspace"), str(tmp_path / "state"), rehearsal=True))
    assert lab.platform == "rehearsal"
    assert not (tmp_path / "state" / "rehearsal").exists()
    lab.ledger.close()


def test_a_line_of_the_log_that_fails_for_another_reason_than_the_disk_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogFile(tmp_path / "server.log", delay=True)
    log.handle(logging.LogRecord("n", logging.WARNING, "p", 1, "%d files", ("three",), None))
    assert "three" in capsys.readouterr().err


@pytest.mark.anyio
async def test_a_platform_of_the_rehearsal_is_started_once_and_again_after_its_end(tmp_path: Path) -> None:
    platform = RehearsalPlatform(Settings(tmp_path, tmp_path / "state", rehearsal=True))
    await platform.close()
    first = await platform.variables()
    assert (await platform.variables())["PRIME_API_BASE_URL"] == first["PRIME_API_BASE_URL"]
    assert first["HOME"] == str(tmp_path / "state" / "rehearsal" / "home")
    assert platform._child is not None
    platform._child.kill()
    with anyio.fail_after(20):
        while platform._child.returncode is None:
            await anyio.sleep(0.01)
    assert (await platform.variables())["PRIME_API_BASE_URL"] != first["PRIME_API_BASE_URL"]
    await platform.close()


def test_the_page_alone_is_served_behind_the_link_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workspace").mkdir()
    servers: list[uvicorn.Server] = []
    started = uvicorn.Server.startup

    async def noted(self: uvicorn.Server, sockets: Any = None) -> None:
        await started(self, sockets)
        servers.append(self)

    monkeypatch.setattr(uvicorn.Server, "startup", noted)
    monkeypatch.setattr(main, "_log_to", lambda path: None)  # the log of this process is that of the tests
    chosen = settings(str(tmp_path / "workspace"), str(tmp_path / "state"))
    serving = threading.Thread(target=main.serve_dashboard, args=(chosen, 0), daemon=True)
    serving.start()
    while not servers:
        time.sleep(0.01)
    link, _, token = capsys.readouterr().out.strip().partition("#token=")
    with httpx.Client(trust_env=False, base_url=link) as client:
        answers = [
            client.get("api/workspace"),
            client.get("api/workspace", headers={"Authorization": f"Bearer {token}"}),
        ]
    servers[0].should_exit = True
    serving.join(20)
    assert [answer.status_code for answer in answers] == [401, 200]
    assert not serving.is_alive()
