"""A state directory that is full, damaged, deleted or forbidden, and a workspace that is gone."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.cli.main import main
from prime_lab_mcp.lab.base.errors import LedgerError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.server.main import LogFile
from tests.attacks.proven import NAME, proven_calls

pytestmark = pytest.mark.anyio


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


async def test_a_full_disk_is_named_and_leaves_no_half_snapshot(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = await proven_calls(lab)
    code = next((lab.workspace.environments / NAME).rglob("*.py"))
    code.write_bytes(code.read_bytes() + b"\n# more\n")
    write = Path.write_bytes

    def full(path: Path, data: Any) -> int:
        if path.is_relative_to(lab.settings.snapshots) and path.suffix == ".py":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    report = await calls.execute("check_environment", {"environment": NAME})
    assert (report.status, codes(report)) == ("error", {"disk-full"})
    assert [(one.tool, one.arguments) for one in report.next] == [("check_environment", {"environment": NAME})]
    assert [p.name for p in lab.settings.snapshots.iterdir() if p.name.startswith(".")] == []


async def test_a_workspace_that_may_not_be_written_is_named_and_no_fault_of_ours(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = await proven_calls(lab)
    make = Path.mkdir

    def forbidden(path: Path, *args: Any, **options: Any) -> None:
        if path == lab.workspace.environments:  # the tests may run as root, whom no mode of a folder stops
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        make(path, *args, **options)

    monkeypatch.setattr(Path, "mkdir", forbidden)
    report = await calls.execute("create_environment", {"name": "new", "template": "numeric"})
    assert (report.status, codes(report)) == ("error", {"unwritable-file"})
    assert str(lab.workspace.environments) in report.findings[0].message
    assert f"uid {os.getuid()}" in report.findings[0].fix


async def test_a_ledger_on_a_full_disk_says_that_the_disk_is_full(lab: Lab) -> None:
    calls = await proven_calls(lab)
    pages = lab.ledger._db.execute("PRAGMA page_count").fetchone()[0]
    lab.ledger._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError) as raised:
        lab.ledger.note_call("w", "tool", "passed", 1.0, "x" * 400_000)
    assert raised.value.code == "disk-full"
    assert (await calls.execute("workflow_status", {})).status == "passed"


def test_a_log_on_a_full_disk_goes_without_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log = LogFile("/dev/full", delay=True)
    log.handle(logging.LogRecord("n", logging.WARNING, "p", 1, "a call was not noted", None, None))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("where", ["header", "pages"])
async def test_a_damaged_ledger_is_called_damaged(lab: Lab, where: str) -> None:
    calls = await proven_calls(lab)
    for number in range(200):
        lab.ledger.note_call("w", "tool", "passed", 1.0, "x" * 4000 + str(number))
    await (
        lab.close()
    )  # with the thread that cleans: while another connection is open, rows stay in a log beside the file
    del lab.__dict__["ledger"]
    assert [file.name for file in lab.settings.state_dir.glob("ledger.sqlite3*")] == ["ledger.sqlite3"]
    data = bytearray(lab.settings.ledger.read_bytes())
    start, end = (0, 100) if where == "header" else (4096, len(data))
    data[start:end] = b"\xa5" * (end - start)
    lab.settings.ledger.write_bytes(data)
    report = await calls.execute("workflow_status", {})
    assert (report.status, codes(report)) == ("error", {"ledger-damaged"})
    assert str(lab.settings.ledger) in report.findings[0].fix
    lab.__dict__.pop("ledger", None)


async def test_an_empty_ledger_beside_snapshots_is_not_taken_for_a_new_one(lab: Lab) -> None:
    await proven_calls(lab)
    lab.ledger.close()
    del lab.__dict__["ledger"]
    for file in lab.settings.state_dir.glob("ledger.sqlite3*"):
        file.unlink()
    lab.settings.ledger.touch()
    with pytest.raises(LedgerError) as raised:
        lab.ledger  # noqa: B018
    assert raised.value.code == "ledger-damaged"


def test_an_empty_ledger_in_a_new_state_directory_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite3").touch()
    assert Ledger(tmp_path / "ledger.sqlite3").evidence() == []


@pytest.mark.parametrize("whole", [False, True], ids=["the ledger", "the state directory"])
async def test_nothing_is_lost_when_the_ledger_is_deleted_while_the_server_runs(lab: Lab, whole: bool) -> None:
    calls = await proven_calls(lab)
    if whole:
        shutil.rmtree(lab.settings.state_dir, ignore_errors=True)
    for file in lab.settings.state_dir.glob("ledger.sqlite3*"):
        file.unlink()
    assert lab.ledger.claim("key", "push", "prime").mine
    assert (await calls.execute("workflow_status", {})).status == "passed"
    other = Ledger(lab.settings.ledger)
    state = other.intent("key", "prime")
    assert state is not None
    assert state.state == "sent"
    assert {row.tool for row in other.evidence()} == {"check_environment", "test_reward"}
    lab.ledger.settle("key", "prime", {"version": "0.1.0"})
    settled = other.intent("key", "prime")
    assert settled is not None
    assert settled.state == "done"


async def test_two_servers_agree_after_the_ledger_was_deleted(lab: Lab) -> None:
    await proven_calls(lab)
    other = Ledger(lab.settings.ledger)
    for file in lab.settings.state_dir.glob("ledger.sqlite3*"):
        file.unlink()
    assert lab.ledger.claim("key", "push", "prime").mine
    assert not other.claim("key", "push", "prime").mine


def test_a_state_directory_that_cannot_be_made_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "workspace").mkdir()
    given = ["call", "workflow_status", "--workspace", str(tmp_path / "workspace")]
    assert main([*given, "--state-dir", str(tmp_path / "file" / "state")]) == 2
    printed = capsys.readouterr()
    assert "state directory" in printed.err
    assert "--state-dir" in printed.err
    assert "Traceback" not in printed.err


async def test_a_workspace_that_is_gone_is_not_one_without_environments(lab: Lab) -> None:
    calls = await proven_calls(lab)
    shutil.rmtree(lab.workspace.root)
    report = await calls.execute("workflow_status", {})
    assert (report.status, codes(report)) == ("error", {"workspace-missing"})


def test_a_busy_ledger_says_that_another_process_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    ledger = Ledger(path)
    ledger._db.execute("PRAGMA busy_timeout = 10")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="another process"):
        ledger.note_call("w", "tool", "passed", 1.0, "")
    holder.execute("ROLLBACK")
