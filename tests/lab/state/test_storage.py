"""What the state directory holds, by kind, and what of it is deleted by age and use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.state import storage
from prime_lab_mcp.lab.state.ledger.rows import JobFolder
from prime_lab_mcp.lab.state.storage import EVALUATION_DAYS, INTERPRETER_DAYS, clean_state, store_sizes

DAY = 86_400
NOW = time.time()


def made(state: Path, path: str, days: float = 0.0) -> Path:
    folder = state / path
    folder.mkdir(parents=True)
    (folder / "file").write_text("x" * 5000, encoding="utf-8")
    os.utime(folder, (NOW - days * DAY,) * 2)
    return folder


def job(id: str, state: Any = "finished", *, judged: bool = True) -> JobFolder:
    return JobFolder(id, state, NOW - EVALUATION_DAYS * DAY - 1, f"content of {id}", judged)


def test_each_kind_of_data_has_its_size_and_shared_files_count_once(tmp_path: Path) -> None:
    first = made(tmp_path, "snapshots/a")
    os.link(first / "file", made(tmp_path, "snapshots/b") / "shared")
    made(tmp_path, "wheels/c")
    snapshots, wheels = store_sizes(tmp_path)
    assert (snapshots.name, snapshots.entries, wheels.name, wheels.entries) == ("snapshots", 2, "wheels", 1)
    assert 10_000 <= snapshots.bytes < 40_000
    assert snapshots.bytes == 2 * wheels.bytes
    assert store_sizes(tmp_path / "none") == ()


def test_old_evaluations_go_except_those_that_run_or_wait_for_their_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "RETAINED_EVALUATIONS", 1)
    jobs = [job("newest"), job("running", "running"), job("unjudged", judged=False), job("old"), job("young")]
    for one in jobs:
        made(tmp_path, f"evals/{one.id}", 0 if one.id == "young" else EVALUATION_DAYS + 1)
    made(tmp_path, "evals/unknown", EVALUATION_DAYS + 1)
    assert clean_state(tmp_path, jobs, NOW) == 2
    assert sorted(path.name for path in (tmp_path / "evals").iterdir()) == ["newest", "running", "unjudged", "young"]


def test_interpreters_go_after_their_last_use_and_the_toolchain_stays(tmp_path: Path) -> None:
    made(tmp_path, f"interpreters/{storage._TOOLCHAIN}-1", INTERPRETER_DAYS + 1)
    made(tmp_path, "interpreters/old", INTERPRETER_DAYS + 1)
    made(tmp_path, "interpreters/new", INTERPRETER_DAYS - 1)
    (tmp_path / "interpreters" / "link").symlink_to(tmp_path)
    os.utime(tmp_path / "interpreters" / "link", (0, 0), follow_symlinks=False)
    assert clean_state(tmp_path, [], NOW) == 1
    assert {path.name for path in (tmp_path / "interpreters").iterdir()} == {f"{storage._TOOLCHAIN}-1", "new", "link"}
