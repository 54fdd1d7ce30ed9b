"""What killed servers leave in the state directory, and arguments that no program takes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from prime_lab_mcp.lab.lab import Lab
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
