"""A second process on the same state directory, with a higher cap or without `--approval always`."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.limits import FOLDER
from prime_lab_mcp.server.approval import Request, approve
from prime_lab_mcp.tools.tool import Intent

pytestmark = pytest.mark.anyio
SERVER = """
import sys
from pathlib import Path
from prime_lab_mcp.server.main import open_lab, settings
lab = open_lab(settings(sys.argv[1], sys.argv[2], approval="always", max_spend=5.0))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    (tmp_path / "workspace").mkdir()
    return Settings(workspace=tmp_path / "workspace", state_dir=tmp_path / "state")


async def test_the_lower_cap_holds_in_a_server_with_a_higher_one(chosen: Settings) -> None:
    strict, loose = Lab(replace(chosen, max_spend=5.0)), Lab(replace(chosen, max_spend=500.0))
    strict.publish_limits()
    loose.publish_limits()
    intent = Intent("submit", "key", "Train?", 100.0)
    report = await approve(loose, intent, Request("submit_training", {}, None, yes=True), None)
    assert report is not None
    assert (report.status, report.findings[0].code) == ("blocked", "over-cap")
    assert "cap of $5.00" in report.findings[0].message
    await strict.close()
    assert await approve(loose, intent, Request("submit_training", {}, None, yes=True), None) is None
    await loose.close()


async def test_a_token_is_no_approval_beside_a_server_that_wants_a_person(chosen: Settings) -> None:
    strict, loose = Lab(replace(chosen, approval="always")), Lab(chosen)
    strict.publish_limits()
    intent = Intent("push", "key", "Publish?")
    asked = await approve(loose, intent, Request("push_environment", {}, None, yes=False), None)
    assert asked is not None
    token = asked.data["confirm"]
    again = await approve(loose, intent, Request("push_environment", {}, token, yes=False), None)
    assert again is not None
    assert again.status == "needs_confirmation"
    loose.ledger.approve(token)
    assert await approve(loose, intent, Request("push_environment", {}, token, yes=False), None) is None
    await loose.close()
    await strict.close()


async def test_yes_counts_only_where_this_server_has_a_cap(chosen: Settings) -> None:
    capped, free = Lab(replace(chosen, max_spend=5.0)), Lab(chosen)
    capped.publish_limits()
    intent = Intent("submit", "key", "Train?", 1.0)
    report = await approve(free, intent, Request("submit_training", {}, None, yes=True), None)
    assert report is not None
    assert report.status == "needs_confirmation"
    await free.close()
    await capped.close()


async def test_a_rehearsal_and_the_platform_have_limits_of_their_own(chosen: Settings) -> None:
    rehearsal, real = Lab(replace(chosen, rehearsal=True, max_spend=5.0)), Lab(chosen)
    rehearsal.publish_limits()
    assert real.limits.max_spend is None
    await real.close()
    await rehearsal.close()


async def test_limits_that_found_no_room_on_the_disk_hold_as_soon_as_there_is_room(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, rename = threading.Event(), os.rename

    def renamed(*paths: Path) -> None:
        if not room.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(*paths)

    monkeypatch.setattr(os, "rename", renamed)
    strict, loose = Lab(replace(chosen, max_spend=5.0)), Lab(chosen)
    strict.publish_limits()
    assert list((chosen.state_dir / FOLDER).iterdir()) == []
    room.set()
    with anyio.fail_after(20):
        while loose.limits.max_spend is None:
            await anyio.sleep(0.02)
    assert loose.limits.max_spend == 5.0
    await strict.close()
    assert loose.limits.max_spend is None
    await loose.close()


def test_the_limits_of_a_killed_server_end_with_it(chosen: Settings) -> None:
    program = [sys.executable, "-c", SERVER, str(chosen.workspace), str(chosen.state_dir)]
    server = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    with server.stdin, server.stdout:
        assert server.stdout.readline() == "open\n"
        lab = Lab(chosen)
        assert (lab.limits.always, lab.limits.max_spend) == (True, 5.0)
        server.send_signal(signal.SIGKILL)
        server.wait()
    assert (lab.limits.always, lab.limits.max_spend) == (False, None)
