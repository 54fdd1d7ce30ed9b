"""What a proof ran with is a part of the proof: exchanged dependencies, and dependencies that are not pinned.

A reward imports a package. Whoever exchanges that package after the proof, or names it by an address whose contents
may change, publishes something that nobody tested.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.distributions import local_distributions
from prime_lab_mcp.lab.environment.package import read_package
from prime_lab_mcp.lab.environment.requirements import wheel_references
from prime_lab_mcp.lab.environment.static_checks import static_findings
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from tests.property.world import MODEL, PYPROJECT, World
from tests.support.distributions import install_distribution

PROOF = ("check_environment", "test_reward", "run_eval", "check_reward_distribution")


def prove(world: World) -> None:
    if not (world.workspace("one") / "environments" / "sums").exists():
        world.write("one", "sums")
    for tool in PROOF:
        assert world.call(world.server("one"), tool, environment="sums").status == "passed"


def push(world: World) -> Report:
    return world.call(world.server("one"), "push_environment", environment="sums")


def submit(world: World) -> Report:
    return world.call(world.server("one"), "submit_training", environment="sums", model=MODEL, steps=10)


def another_version(world: World) -> str:
    world.install("helper", "2.0")
    return "helper 1.0 is 2.0 now"


def another_build(world: World) -> str:
    world.install("helper", "1.0", "PAYS = 2\n")
    return "the files of helper 1.0 differ"


def an_edited_file(world: World) -> str:
    (world.site / "helper" / "__init__.py").write_text("PAYS = 3 # longer\n", encoding="utf-8")
    return "the files of helper 1.0 differ"


def a_file_less(world: World) -> str:
    (world.site / "helper" / "__init__.py").unlink()
    return "the files of helper 1.0 differ"


def uninstalled(world: World) -> str:
    shutil.rmtree(world.site / "helper-1.0.dist-info")
    return "helper 1.0 is gone"


def code_at_every_start(world: World) -> str:
    (world.site / "evil.pth").write_text("import evil\n", encoding="utf-8")
    return "the files of (start-up files) differ"


EXCHANGES = [another_version, another_build, an_edited_file, a_file_less, uninstalled, code_at_every_start]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_dependency_that_was_exchanged_after_the_proof_closes_the_push(world: World, exchange: Any) -> None:
    prove(world)
    named = exchange(world)
    report = push(world)
    assert report.status == "blocked", report
    assert {unmet.why for unmet in report.unmet} == {"stale"}
    assert named in report.unmet[0].detail
    assert world.pushes() == []


@pytest.mark.parametrize("exchange", [another_version, an_edited_file])
def test_a_dependency_that_was_exchanged_after_the_push_closes_the_submission(world: World, exchange: Any) -> None:
    prove(world)
    assert push(world).status == "passed"
    named = exchange(world)
    report = submit(world)
    assert report.status == "blocked", report
    assert any(named in unmet.detail for unmet in report.unmet)
    assert world.runs() == []


def test_an_exchange_while_the_question_is_open_sends_nothing(world: World) -> None:
    prove(world)
    server = world.server("one")

    async def exchanging(question: str) -> Any:
        another_build(world)
        return "approved"

    report = world.loop.run_until_complete(server.execute("push_environment", {"environment": "sums"}, ask=exchanging))
    assert report.status == "blocked", report
    assert world.pushes() == []


def test_a_pushed_environment_whose_folder_is_gone_keeps_its_dependencies(world: World) -> None:
    prove(world)
    assert push(world).status == "passed"
    shutil.rmtree(world.workspace("one") / "environments" / "sums")
    server = world.server("one")
    written = world.call(server, "write_training_config", environments=["me/sums@0.1.0"], model=MODEL, steps=10)
    another_version(world)
    report = world.call(server, "submit_training", config=str(written.data["path"]))
    assert report.status == "blocked", report
    assert any("helper 1.0 is 2.0 now" in unmet.detail for unmet in report.unmet)
    world.install("helper", "1.0")
    assert world.call(server, "submit_training", config=str(written.data["path"])).status == "passed"


def test_a_proof_with_the_present_dependencies_opens_the_gates_again_and_so_does_the_old_package(world: World) -> None:
    prove(world)
    another_version(world)
    assert push(world).status == "blocked"
    world.install("helper", "1.0")
    assert push(world).status == "passed"
    another_version(world)
    prove(world)
    assert submit(world).status == "passed"


def test_a_package_that_the_environment_does_not_require_changes_nothing(world: World) -> None:
    prove(world)
    world.install("unrelated", "1.0")
    assert push(world).status == "passed"
    assert submit(world).status == "passed"


def test_a_verdict_of_an_older_version_names_no_dependencies_and_is_not_proof(world: World) -> None:
    prove(world)
    ledger = world.server("one").lab.ledger
    with ledger.transaction() as db:
        db.execute("DROP TRIGGER evidence_is_final")
        db.execute("UPDATE evidence SET toolchain = ?", (json.dumps({"verifiers": "0.4.0"}),))
    report = push(world)
    assert report.status == "blocked", report
    assert "hashes were not recorded" in report.unmet[0].detail


def test_the_map_says_what_is_stale_and_why(world: World) -> None:
    prove(world)
    another_version(world)
    (found,) = world.call(world.server("one"), "workflow_status").data["environments"]
    gates = {gate["tool"]: gate for gate in found["gates"]}
    assert gates["run_eval"]["state"] == "open"
    assert gates["push_environment"]["state"] == "closed"
    assert "helper 1.0 is 2.0 now" in gates["push_environment"]["why"]


# Addresses

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def codes(tmp_path: Path, dependency: str, more: str = "") -> list[str]:
    """The findings of the static checks of a package with one more dependency."""
    folder = tmp_path / "sums"
    (folder / "sums").mkdir(parents=True)
    (folder / "sums" / "__init__.py").write_text("", encoding="utf-8")
    text = PYPROJECT.replace('<0.5"]', f"<0.5\", '{dependency}']") + more
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    taken = take_snapshot(EnvironmentFolder("sums", folder, "environments/sums"), tmp_path / "snapshots")
    return [f.code for f in static_findings(read_package(taken)) if f.severity == "blocker"]


@pytest.mark.parametrize(
    "dependency",
    [
        "helper @ git+https://example.com/helper",
        "helper @ git+https://example.com/helper@main",
        "helper @ git+https://example.com/helper@v1.0",
        f"helper @ git+https://example.com/helper@{COMMIT[:7]}",
        f"helper @ git+https://example.com/helper#subdirectory=@{COMMIT}",
        f"helper @ git+file:///home/me/helper@{COMMIT}",
        "helper @ https://example.com/helper-1.0-py3-none-any.whl",
        "helper @ https://example.com/helper-1.0-py3-none-any.whl#md5=" + "0" * 32,
        "helper @ file:///home/me/helper",
        "helper @ ./helper",
    ],
)
def test_a_dependency_by_an_address_whose_contents_may_change_blocks_the_push(tmp_path: Path, dependency: str) -> None:
    assert "dependency-unpinned" in codes(tmp_path, dependency)


@pytest.mark.parametrize(
    "dependency",
    [
        f"helper @ git+https://example.com/helper@{COMMIT}",
        f"helper @ git+https://example.com/helper@{COMMIT}#subdirectory=python",
        "helper @ https://example.com/helper-1.0-py3-none-any.whl#sha256=" + "0" * 64,
        "helper==1.0",
    ],
)
def test_a_commit_and_an_archive_with_its_hash_may_be_published(tmp_path: Path, dependency: str) -> None:
    assert "dependency-unpinned" not in codes(tmp_path, dependency)


@pytest.mark.parametrize(
    "source", [f'git = "https://example.com/helper", rev = "{COMMIT}"', 'path = "../helper"', "workspace = true"]
)
def test_a_source_that_only_uv_reads_blocks_the_push(tmp_path: Path, source: str) -> None:
    more = f"\n[tool.uv.sources]\nhelper = {{ {source} }}\n"
    assert "dependency-unpinned" in codes(tmp_path, "helper==1.0", more)


def test_an_address_that_only_the_wheel_requires_is_found(tmp_path: Path) -> None:
    install_distribution(tmp_path, "sums", "0.1.0", requires=("helper @ git+https://example.com/helper@main",))
    assert [f.code for f in wheel_references(tmp_path)] == ["dependency-unpinned"]


def test_a_distribution_that_is_installed_from_a_folder_of_this_machine_is_found(world: World) -> None:
    wanted = [Requirement("verifiers")]
    assert local_distributions(world.python, wanted) == ()
    world.install("helper", "1.0", origin={"url": "file:///home/me/helper", "dir_info": {"editable": True}})
    assert local_distributions(world.python, wanted) == ("helper",)
