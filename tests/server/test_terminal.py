"""`prime-lab-mcp call`, `approve` and `override`: the same reports, exit codes, and what only a person may do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from prime_lab_mcp.cli import person
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import evidence_from
from prime_lab_mcp.lab.state.outcome import Facts
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import Workspace


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "prime_lab_mcp", arguments[0], "--workspace", str(tmp_path / "workspace")]
    command += ["--state-dir", str(tmp_path / "state"), *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("call", "workflow_status"), 0, "passed: 0 environments"),
        (("call", "read_reference", "--topic", "guide/workflow"), 0, "# The workflow"),
        (("call", "check_environment", "--environment", "nope"), 4, "environment-not-found"),
        (("call", "check_environment"), 2, "the argument environment is missing"),
        (("call", "no_such_tool"), 2, "unknown-tool"),
        (("call", "workflow_status", "--json", "[1]"), 2, "one JSON object"),
        (("approve", "nope", "--yes"), 2, "no pending question"),
        (("override", "nope", "code", "--reason", "because it is right"), 2, "no environment"),
    ],
)
def test_exit_codes_and_messages(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


def test_a_failed_and_a_blocked_report_have_exit_codes_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / "environments" / "broken"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[project\n", encoding="utf-8")
    assert run(tmp_path, "call", "check_environment", "--environment", "broken").returncode == 1
    assert run(tmp_path, "call", "push_environment", "--environment", "broken").returncode == 3


def test_the_state_directory_may_not_lie_inside_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    command = [sys.executable, "-m", "prime_lab_mcp", "call", "workflow_status", "--workspace"]
    command += [str(tmp_path / "workspace"), "--state-dir", str(tmp_path / "workspace" / "state")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "inside the workspace" in done.stderr) == (2, True)


@pytest.fixture
def failed(settings: Settings) -> Snapshot:
    folder = settings.workspace / "environments" / "slow"
    (folder / "slow").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "slow"\nversion = "0.1.0"\n', encoding="utf-8")
    (folder / "slow" / "__init__.py").write_text("A = 1\n", encoding="utf-8")
    workspace = Workspace(settings.workspace.resolve())
    snapshot = take_snapshot(workspace.environment("slow"), settings.snapshots)
    finding = Finding("reward-slow", "blocker", "slow", "Faster.")
    key = str(workspace.root)
    verdict = evidence_from("test_reward", "failed", key, snapshot, (finding,), Facts(), "prime", {}, {})
    Ledger(settings.ledger).record(verdict)
    return snapshot


def test_a_person_waives_one_blocker_until_the_files_change(settings: Settings, failed: Snapshot) -> None:
    assert person.override(settings, "slow", "reward-slow", "measured: it is the judge's own latency") == 0
    waived = Ledger(settings.ledger).overrides(str(settings.workspace.resolve()))
    assert (failed.source, "reward-slow") in waived
    (settings.workspace / "environments" / "slow" / "slow" / "__init__.py").write_text("A = 2\n", encoding="utf-8")
    with pytest.raises(BadInput, match="no verdict about the present files"):
        person.override(settings, "slow", "reward-slow", "measured: it is the judge's own latency")


@pytest.mark.parametrize(("code", "reason"), [("never-run", "it is surely right"), ("reward-slow", "ok")])
def test_what_was_not_found_or_not_explained_cannot_be_waived(
    settings: Settings, failed: Snapshot, code: str, reason: str
) -> None:
    with pytest.raises(BadInput):
        person.override(settings, "slow", code, reason)
