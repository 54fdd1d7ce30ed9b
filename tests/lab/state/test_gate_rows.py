"""What the gates read for one environment: its rows of the ledger, its pyproject.toml, and the installed verifiers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.state import gates
from prime_lab_mcp.lab.state.gates import (
    NEEDS,
    Need,
    Standing,
    Subject,
    proven_tools,
    standing,
    subject_history,
    subject_of,
    tried_arguments,
    upcoming_call,
    with_arguments,
)
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder, Workspace
from tests.lab.state.evidence_rows import blocked_by, row

HERE = Subject("env", source="s1", content="c1")
WORKSPACE = Workspace(Path("/no-such-workspace"))
CHECKED = Need("check_environment", "content")
REWARD = Need("test_reward", "source")
SIGNAL = Need("check_reward_distribution", "source")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite3")


def package(folder: Path, requirement: str | None) -> Snapshot:
    folder.mkdir()
    needs = f'dependencies = ["{requirement}"]' if requirement else ""
    (folder / "pyproject.toml").write_text(f'[project]\nname = "env"\nversion = "0.1.0"\n{needs}\n', encoding="utf-8")
    return take_snapshot(EnvironmentFolder("env", folder, "environments/env"), None)


@pytest.mark.parametrize(("tool", "why"), [("test_reward", None), ("run_eval", None), ("push_environment", "failed")])
def test_tests_and_evaluations_need_that_the_environment_loads_and_a_push_that_it_passes(
    tool: str, why: str | None
) -> None:
    loads = blocked_by("gold-missing", tool="check_environment", data={"loads": True})
    assert standing(NEEDS[tool][0], [loads], HERE, "prime", set()).why == why


def test_a_need_is_a_pass_where_the_table_says_nothing_else() -> None:
    loads = blocked_by("gold-missing", tool="check_environment", data={"loads": True})
    assert standing(Need("check_environment", "content"), [loads], HERE, "prime", set()).why == "failed"


@pytest.mark.parametrize("other", [{"source": "s0"}, {"tool": "run_eval"}, {"env_args": {"level": 2}}])
def test_only_a_reward_test_of_these_files_without_arguments_shows_that_the_defaults_do_not_load(
    other: dict[str, object],
) -> None:
    subject = replace(HERE, check_args={"level": 1})
    failed = blocked_by("load-failed", data={"loads": False})
    assert with_arguments(subject, None, [failed]).arguments == {"level": 1}
    assert with_arguments(subject, None, [replace(failed, **other)]).arguments == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requirement", "runs_on"),
    [("verifiers>=0.2", "0.4.0"), ("verifiers>=9", None), ("numpy", None), (None, None)],
)
def test_a_package_runs_on_the_servers_verifiers_where_its_requirement_admits_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requirement: str | None, runs_on: str | None
) -> None:
    monkeypatch.setattr(gates, "installed_verifiers", lambda: "0.4.0")
    assert subject_of(package(tmp_path / "env", requirement)).verifiers == runs_on


def test_without_verifiers_in_the_server_no_package_runs_on_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "installed_verifiers", lambda: None)
    assert subject_of(package(tmp_path / "env", "verifiers>=0.2")).verifiers is None


def test_each_set_of_arguments_that_was_tried_is_listed_once_and_the_latest_first(
    ledger: Ledger, tmp_path: Path
) -> None:
    here = package(tmp_path / "env", None)
    for arguments in ({"level": 1}, {}, {"level": 1}):
        ledger.record(row(source=here.source, env_args=arguments))
    assert tried_arguments(ledger, "w", here) == [{"level": 1}, {}]


def test_the_gates_read_every_verdict_that_may_decide_and_the_last_about_other_files(ledger: Ledger) -> None:
    def record(tool: str, **changes: object) -> int:
        return ledger.record(row(tool, **changes))

    record("check_environment", content="c0", source="s0")
    stale = record("check_environment", content="c0", source="s0")
    record("check_reward_distribution", model="A")
    models = [record("check_reward_distribution", model=model) for model in ("A", "B")]
    record("check_reward_distribution", environment="other", source="s9")
    tested = record("test_reward")
    record("push_environment")
    # Under an older definition, the same content has another source.
    older = record("test_reward", source="s-old")
    edited = record("test_reward", source="s2", content="c2")
    record("test_reward", environment="other", source="s9", content="c1")
    found = [one.id for one in subject_history(ledger, "w", HERE, (CHECKED, SIGNAL))]
    assert found == [edited, older, tested, *reversed(models), stale]


def test_a_config_is_compared_with_its_own_verdicts_and_the_last_of_any(ledger: Ledger) -> None:
    def record(sha256: str) -> int:
        return ledger.record(row("check_training_config", environment=None, source=None, config_sha256=sha256))

    own, _, last = record("x1"), record("x2"), record("x3")
    subject = Subject(config_sha256="x1")
    history = subject_history(ledger, "w", subject, (Need("check_training_config", "config"),))
    assert [one.id for one in history] == [last, own]


def test_what_is_about_no_environment_reads_no_verdict_of_one(ledger: Ledger) -> None:
    ledger.record(row())
    assert subject_history(ledger, "w", Subject(), (REWARD,)) == []


def test_the_tools_that_are_proven_are_those_whose_evidence_is_valid(ledger: Ledger, tmp_path: Path) -> None:
    here = package(tmp_path / "env", None)
    ledger.record(row("check_environment", source=here.source, content=here.content))
    ledger.record(blocked_by("reward-constant", source=here.source, content=here.content))
    assert proven_tools(ledger, "w", "prime", here) == ("check_environment",)


def test_a_distribution_that_is_too_small_leads_to_the_larger_evaluation() -> None:
    small = blocked_by("distribution-too-small", "inconclusive", "check_reward_distribution", data={"tasks": 60})
    found = standing(SIGNAL, [small], HERE, "prime", set())
    upcoming = upcoming_call("env", "v1", [found], workspace=WORKSPACE)
    assert upcoming == Next("run_eval", found.detail, {"environment": "env", "num_examples": 120})
    unclear = Standing(SIGNAL, "failed", "no signal", small)
    assert upcoming_call("env", "v1", [unclear], workspace=WORKSPACE).tool == "read_eval"


def test_arguments_of_checks_that_are_no_table_count_as_none(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    package(folder, None)
    (folder / "pyproject.toml").write_text('[tool.prime-lab]\ncheck_args = "train"\n', encoding="utf-8")
    taken = take_snapshot(EnvironmentFolder("env", folder, "environments/env"), tmp_path / "again")
    assert subject_of(taken).check_args == {}


def test_arguments_that_were_tried_with_two_platforms_are_listed_once(ledger: Ledger, tmp_path: Path) -> None:
    here = package(tmp_path / "env", None)
    for platform in ("prime", "rehearsal"):
        ledger.record(row(source=here.source, platform=platform))
    assert tried_arguments(ledger, "w", here) == [{}]
