"""A ledger and a workspace that grew: what gates and the status read does not grow with them."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab import environment_status as status_module
from prime_lab_mcp.lab import present_distributions as distributions_module
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.state import snapshot as snapshot_module
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import StoredEvidence
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from tests.attacks.proven import NAME, proven_calls, record
from tests.support.costs import starts

pytestmark = pytest.mark.anyio


@contextmanager
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The thread of each read of a verdict, and of each later read of one of its large columns."""
    read: list[int] = []
    from_row = StoredEvidence.from_row

    def counted(row: Mapping[str, Any], read_column: Callable[[int, str], Any]) -> StoredEvidence:
        def counted_column(id: int, column: str) -> Any:
            read.append(threading.get_ident())
            return read_column(id, column)

        read.append(threading.get_ident())
        return from_row(row, counted_column)

    with monkeypatch.context() as patched:
        patched.setattr(StoredEvidence, "from_row", counted)
        yield read


def fill(ledger: Ledger, workspace: str, rows: int, **fields: Any) -> None:
    """Verdicts about other files of the same environment, as a long day of edits leaves them."""
    tools = ("check_environment", "test_reward", "run_eval", "check_reward_distribution", "check_training_config")
    values: Sequence[tuple[str, ...]] = [
        (workspace, tools[n % 5], NAME, fields.get("source", f"s{n}"), f"c{n}", f"x{n}") for n in range(rows)
    ]
    with ledger.transaction() as db:
        db.executemany(
            "INSERT INTO evidence (workspace, tool, environment, source, content, config_sha256, at, arguments, status,"
            " sampling, env_args, toolchain, findings, data)"
            " VALUES (?, ?, ?, ?, ?, ?, 1, '{}', 'failed', '{}', '{}', '{}', '[]', '{}')",
            values,
        )


@pytest.mark.parametrize("same", [False, True], ids=["of other files", "of the same files"])
async def test_gates_and_the_status_read_a_few_rows_of_a_long_ledger(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    calls = await proven_calls(lab)
    source = (await lab.snapshot(NAME)).source
    fill(lab.ledger, lab.key, 2_000, **({"source": source} if same else {}))
    await record(lab, "check_environment")
    await record(lab, "test_reward")
    for tool, arguments in (("push_environment", {"environment": NAME}), ("workflow_status", {})):
        with rows_read(monkeypatch) as read:
            report = await calls.execute(tool, arguments)
        assert report.status == ("blocked" if tool == "push_environment" else "passed")
        assert len(read) < 80, tool
        assert threading.get_ident() not in read, f"{tool} reads evidence on the event loop"


async def test_the_status_reads_a_few_rows_where_the_evaluation_of_much_tested_files_is_missing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = await proven_calls(lab)
    snapshot = await lab.snapshot(NAME)
    with lab.ledger.transaction() as db:
        tested = [(lab.key, NAME, snapshot.source, snapshot.content)] * 2_000
        db.executemany(
            "INSERT INTO evidence (workspace, tool, environment, source, content, at, arguments, status, sampling,"
            " env_args, toolchain, findings, data)"
            " VALUES (?, 'test_reward', ?, ?, ?, 1, '{}', 'passed', '{}', '{}', '{}', '[]', '{}')",
            tested,
        )
    toolchain = {DISTRIBUTIONS: await present_distributions(lab, snapshot)}
    await record(lab, "check_environment", toolchain=toolchain)
    await record(lab, "test_reward", toolchain=toolchain)
    with rows_read(monkeypatch) as read:
        report = await calls.execute("workflow_status", {})
    assert report.next[0].tool == "run_eval"
    assert len(read) < 80
    assert threading.get_ident() not in read


async def test_every_query_of_a_gate_uses_an_index(lab: Lab) -> None:
    calls = await proven_calls(lab)
    queries: list[str] = []
    database = lab.ledger._db  # what SQLite executes is known to the connection alone
    database.set_trace_callback(queries.append)
    await calls.execute("push_environment", {"environment": NAME})
    await calls.execute("submit_training", {"environment": NAME})
    await calls.execute("workflow_status", {})
    database.set_trace_callback(None)
    grow = ("evidence", "snapshots", "pushes", "jobs", "runs")
    asked = [
        q for q in dict.fromkeys(queries) if q.startswith("SELECT") and any(f"FROM {table}" in q for table in grow)
    ]
    assert any("FROM evidence" in query for query in asked)
    scans = [
        f"{step['detail']}: {query}"
        for query in asked
        for step in database.execute(f"EXPLAIN QUERY PLAN {query}")
        if step["detail"].startswith("SCAN ") and "LIMIT" not in query and "max(" not in query
    ]
    assert scans == []


async def test_the_status_reads_only_folders_that_changed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = await proven_calls(lab)
    folder = lab.workspace.environments / NAME
    for number in range(5):
        shutil.copytree(folder, folder.with_name(f"sums_{number}"))
    monkeypatch.setattr(snapshot_module, "SETTLED_SECONDS", -3600.0)  # files of tests are new
    taken: list[str] = []
    original = snapshot_module.take_snapshot

    def take(folder: EnvironmentFolder, store: Path) -> Snapshot:
        taken.append(folder.name)
        return original(folder, store)

    monkeypatch.setattr(snapshot_module, "take_snapshot", take)
    first = await calls.execute("workflow_status", {})
    assert len(taken) == 6
    taken.clear()
    assert (await calls.execute("workflow_status", {})).data["environments"] == first.data["environments"]
    assert taken == []
    code = next((folder.with_name("sums_3")).rglob("*.py"))
    before = code.stat()
    code.write_bytes(code.read_bytes().replace(b"1", b"2", 1))
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = (await calls.execute("workflow_status", {})).data["environments"]
    assert taken == ["sums_3"]
    assert [a["name"] for a, b in zip(changed, first.data["environments"], strict=True) if a != b] == ["sums_3"]


async def test_the_status_of_many_environments_reads_the_distributions_once_in_every_call(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = await proven_calls(lab)
    folder = lab.workspace.environments / NAME
    for number in range(3):
        shutil.copytree(folder, folder.with_name(f"sums_{number}"))
    reads: list[Path] = []
    original = distributions_module.read_fingerprints

    def read(python: Path, wanted: Any) -> Any:
        reads.append(python)
        return original(python, wanted)

    monkeypatch.setattr(distributions_module, "read_fingerprints", read)
    monkeypatch.setattr(status_module, "_KEEP_SECONDS", 0.0)
    for number in (1, 2):
        await record(lab, "check_environment")
        await calls.execute("workflow_status", {})
        assert len(reads) == number


async def test_files_that_were_written_this_moment_are_read_again(lab: Lab) -> None:
    """The times of a file cannot tell two writes of one moment apart."""
    calls = await proven_calls(lab)
    first = (await calls.execute("workflow_status", {})).data["environments"][0]["content"]
    code = next((lab.workspace.environments / NAME).rglob("*.py"))
    before = code.stat()
    code.write_bytes(code.read_bytes() + b"# more\n")
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await calls.execute("workflow_status", {})).data["environments"][0]["content"] != first


async def test_a_first_refusal_starts_no_process(lab: Lab) -> None:
    calls = await proven_calls(lab)
    before = starts()
    report = await calls.execute("submit_training", {"environment": NAME, "model": "Qwen/Qwen3-4B"})
    assert (report.status, starts() - before) == ("blocked", 0)
