"""What killed servers leave in the state directory, and arguments that no program takes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.cli import terminal
from prime_lab_mcp.cli.doctor import doctor
from prime_lab_mcp.lab.base.errors import LedgerError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state import snapshot, storage
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Job, JobFolder
from prime_lab_mcp.lab.state.leftovers import clean_leftovers, scratch_prefix
from tests.attacks.proven import NAME, proven_calls

pytestmark = pytest.mark.anyio
TWO_DAYS = 2 * 86_400
TWO_MONTHS = 60 * 86_400


def _folder(path: Path, age: float = 0.0) -> Path:
    (path / "inner").mkdir(parents=True)
    (path / "inner" / "file").write_text("", encoding="utf-8")
    (path / "inner").chmod(0o555)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def _ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as program:
        return program.pid


async def test_what_killed_servers_left_is_removed_and_nothing_else(lab: Lab) -> None:
    state = lab.settings.state_dir
    ended = _ended_process()
    gone = [
        _folder(state / "snapshots" / ".building-abc", TWO_DAYS),
        _folder(state / "wheels" / ".tree-abc", TWO_DAYS),
        _folder(state / "push" / "tmpabc", TWO_DAYS),
        _folder(state / "fetched" / "tmpabc", TWO_DAYS),
        _folder(state / "dataset-abc", TWO_DAYS),
        _folder(state / "scratch" / f"{scratch_prefix('zygote', ended)}abc"),
        _folder(state / "caches" / "python-abc" / ".removed-abc", TWO_DAYS),
        _folder(state / "caches" / "python-abc" / "unused", TWO_MONTHS),
        _folder(state / "caches" / ("a" * 16), TWO_MONTHS),
    ]
    stays = [
        _folder(state / "snapshots" / ".building-new"),
        _folder(state / "snapshots" / ("a" * 64), TWO_DAYS),
        _folder(state / "push" / "tmpnew"),
        _folder(state / "wheels" / ("a" * 64), TWO_DAYS),
        _folder(state / "evals" / "eval-1", TWO_DAYS),
        _folder(state / "caches" / "python-abc" / "used", TWO_DAYS),
        _folder(state / "scratch" / f"{scratch_prefix('zygote', os.getpid())}abc", TWO_DAYS),
    ]
    assert clean_leftovers(state) == len(gone)
    assert [path for path in gone if path.exists()] == []
    assert [path for path in stays if not path.exists()] == []


def _job(lab: Lab, id: str, content: str, age: float, **fields: Any) -> None:
    at = time.time() - age
    job = Job(id, lab.key, NAME, "s", content, id, "finished", None, at, at, None, {}, judged=True, at=at)
    lab.ledger.create_job(replace(job, **fields))


async def test_evaluations_interpreters_and_snapshots_go_when_they_are_old_and_unused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lab, "_clean", lambda lab: None)  # the lab's own thread would clean beside this test
    monkeypatch.setattr(storage, "RETAINED_EVALUATIONS", 1)
    monkeypatch.setattr(snapshot, "MOST_SNAPSHOTS", 1)
    state, content = lab.settings.state_dir, {name: name[0] * 64 for name in ("broken", "lost", "new")}
    _job(lab, "eval-old", "c", TWO_MONTHS)
    _job(lab, "eval-unjudged", "c", TWO_MONTHS, judged=False)
    _job(lab, "eval-lost", content["lost"], TWO_MONTHS, state="crashed")
    _job(lab, "eval-broken", content["broken"], TWO_DAYS, state="crashed")
    _job(lab, "eval-newest", "c", TWO_MONTHS)
    lab.ledger.update_job("eval-old", spec="megabytes that the cleaning does not read")
    gone = [
        *(_folder(state / "evals" / name, TWO_MONTHS) for name in ("eval-old", "eval-lost", "eval-of-nobody")),
        _folder(state / "interpreters" / "abc", 2 * TWO_MONTHS),
        _folder(state / "snapshots" / content["lost"], TWO_MONTHS),
    ]
    stays = [
        *(_folder(state / "evals" / name, TWO_MONTHS) for name in ("eval-unjudged", "eval-newest")),
        _folder(state / "evals" / "eval-broken", TWO_DAYS),
        _folder(state / "interpreters" / "used", TWO_DAYS),
        _folder(state / "interpreters" / "toolchain-abc", 2 * TWO_MONTHS),
        _folder(state / "snapshots" / content["broken"], TWO_DAYS),
        _folder(state / "snapshots" / content["new"]),
    ]
    assert storage.clean_state(state, lab.ledger.job_folders()) == len(gone)
    assert [path.name for path in gone if path.exists()] == []
    assert [path.name for path in stays if not path.exists()] == []


async def test_the_cleaning_reads_the_ledger_by_a_connection_of_its_own(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite ends the whole process where a connection is closed that another thread reads from."""
    reading, used = threading.Event(), []

    def noted_jobs(ledger: Ledger) -> list[JobFolder]:
        used.append(ledger)
        reading.set()
        return []

    monkeypatch.setattr(Ledger, "job_folders", noted_jobs)
    lab = Lab(settings)
    opened = lab.ledger
    assert await anyio.to_thread.run_sync(reading.wait, 20)
    assert used[0] is not opened
    await lab.close()


async def test_the_cleaning_does_not_make_a_ledger_that_is_gone_anew(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lab, "_clean", lambda lab: None)
    ledger = lab.settings.ledger
    lab.ledger.close()
    for path in ledger.parent.glob(f"{ledger.name}*"):
        path.unlink()
    monkeypatch.setattr(Path, "stat", lambda path, **_: os.stat(os.devnull))  # it goes right after it was looked for
    with pytest.raises(LedgerError):
        lab._evaluations()
    monkeypatch.undo()
    assert not ledger.exists()


async def test_doctor_shows_what_the_state_directory_holds(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "run_tool", lambda *_: Report("passed", "Everything works."))
    _folder(lab.settings.snapshots / ("a" * 64))
    (lab.settings.snapshots / ("a" * 64) / "data").write_bytes(os.urandom(3_000_000))
    assert doctor(lab.settings, "text") == 0
    printed = capsys.readouterr().out
    assert f"state directory {lab.settings.state_dir}: 3.0 MB" in printed
    assert re.search(r"snapshots +1 +3.0 MB +kept the newest 40", printed)


async def test_the_next_server_cleans_up(lab: Lab) -> None:
    left = _folder(lab.settings.snapshots / ".building-abc", TWO_DAYS)
    await proven_calls(lab)
    until = time.monotonic() + 20
    while left.exists() and time.monotonic() < until:
        await anyio.sleep(0.02)
    assert not left.exists()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_reference", {"topic": "a\0b"}),
        ("search_hub", {"kind": "environment", "query": "a\0b"}),
        ("inspect_dataset", {"dataset": "a\0b"}),
        ("create_environment", {"name": "a", "task": "a\0b"}),
        ("test_reward", {"environment": NAME, "env_args": {"split": ["a\0b"]}}),
        ("run_eval", {"environment": NAME, "model": "a\0b"}),
        ("watch_run", {"id": "a\0b"}),
        ("workflow_status", {"environment": "a\0b"}),
    ],
)
async def test_a_nul_in_an_argument_is_a_bad_argument(lab: Lab, tool: str, arguments: dict[str, object]) -> None:
    calls = await proven_calls(lab)
    report = await calls.execute(tool, arguments)
    assert (report.status, {f.code for f in report.findings}) == ("error", {"bad-argument"})
