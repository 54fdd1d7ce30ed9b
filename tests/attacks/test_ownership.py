"""An environment of ours keeps its gates under any name, and one of somebody else keeps its fast path."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.tools import create_environment
from prime_lab_mcp.tools.tool import AnyTool
from tests.property import world as worlds
from tests.property.world import MODEL, World

PROOF = ("check_environment", "test_reward", "run_eval", "check_reward_distribution")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    tools: tuple[AnyTool, ...] = (*worlds.TOOLS, create_environment.TOOL)
    monkeypatch.setattr(worlds, "TOOLS", tools)
    made = World(tmp_path)
    yield made
    made.close()


def submit(world: World, id: str, workspace: str = "one") -> Report:
    return world.call(world.server(workspace), "submit_training", environment=id, model=MODEL, steps=10)


def known_here(world: World, word: str = "FLAW") -> dict[str, str]:
    """The files of an environment that this machine made."""
    world.write("one", "sums", word)
    server = world.server("one")
    world.call(server, "check_environment", environment="sums")
    world.call(server, "test_reward", environment="sums")
    return world.files("one", "sums")


def changed(files: dict[str, str], path: str, text: str) -> dict[str, str]:
    return {**files, path: files.get(path, "") + text}


@pytest.mark.parametrize("ref", ["me/sums", "me/disguised", "ME/sums", "friend/disguised"])
def test_a_broken_environment_of_ours_that_was_changed_by_a_character_and_pushed_by_hand_keeps_its_gates(
    world: World, ref: str
) -> None:
    files = changed(known_here(world), "README.md", "!")
    world.publish_by_hand(ref, "0.1.0", files)
    report = submit(world, f"{ref}@0.1.0")
    assert report.status == "blocked"
    assert report.unmet[0].tool == "push_environment"
    assert world.runs() == []


def test_what_was_copied_out_and_edited_is_ours_under_the_account_and_from_a_second_workspace(world: World) -> None:
    files = changed(known_here(world), "sums/taskset.py", "# other\n")
    shutil.rmtree(world.workspace("one") / "environments" / "sums")
    world.publish_by_hand("me/sums", "0.2.0", files)
    report = submit(world, "me/sums@0.2.0", "two")
    assert report.status == "blocked"
    assert "create_environment" in report.unmet[0].detail


def test_what_of_ours_was_pushed_from_elsewhere_is_pulled_and_proven_here(world: World) -> None:
    known_here(world, "sound")
    files = changed(world.files("one", "sums"), "sums/taskset.py", "# other\n")
    shutil.rmtree(world.workspace("one") / "environments" / "sums")
    world.publish_by_hand(
        "me/sums", "0.2.0", {**files, "pyproject.toml": files["pyproject.toml"].replace("0.1.0", "0.2.0")}
    )
    server = world.server("one")
    pulled = world.call(server, "create_environment", name="sums", hub="me/sums@0.2.0")
    assert pulled.status == "passed", pulled
    for tool in (*PROOF, "push_environment"):
        given = {"bump": "patch"} if tool == "push_environment" else {}
        assert world.call(server, tool, environment="sums", **given).status == "passed"
    assert submit(world, f"me/sums@{world.pushes()[-1]['version']}").status == "passed"


def stranger(world: World, word: str = "sound", version: str = "1.0.0") -> dict[str, str]:
    """An environment of somebody else, never read here."""
    text = worlds.PYPROJECT.replace('"sums"', '"theirs"').replace("0.1.0", version)
    files = {
        "pyproject.toml": text,
        "README.md": "# Theirs\n",
        "theirs/__init__.py": worlds.TASKSET.replace("{word}", word),
    }
    world.publish_by_hand("somebody/theirs", version, files)
    return files


def test_a_local_environment_of_the_same_name_does_not_close_a_strangers_fast_path(world: World) -> None:
    stranger(world)
    folder = world.write("one", "theirs")
    (folder / "pyproject.toml").write_text(worlds.PYPROJECT.replace('"sums"', '"theirs"'), encoding="utf-8")
    world.call(world.server("one"), "check_environment", environment="theirs")
    assert submit(world, "somebody/theirs@1.0.0").status == "passed"


def test_a_push_record_in_a_folder_is_not_believed_by_itself(world: World) -> None:
    stranger(world)
    folder = world.write("one", "theirs")
    (folder / ".prime").mkdir()
    record = {"owner": "somebody", "name": "theirs", "version": "1.0.0", "pushed_at": "2026-01-01"}
    (folder / ".prime" / ".env-metadata.json").write_text(json.dumps(record), encoding="utf-8")
    assert submit(world, "somebody/theirs@1.0.0").status == "passed"


def test_looking_at_a_strangers_environment_does_not_close_its_fast_path(world: World) -> None:
    stranger(world)
    server = world.server("one")
    assert world.call(server, "create_environment", name="theirs", hub="somebody/theirs@1.0.0").status == "passed"
    for tool in PROOF:
        world.call(server, tool, environment="theirs")
    assert submit(world, "somebody/theirs@1.0.0").status == "passed"


def test_a_verdict_that_failed_on_a_strangers_files_is_named_in_the_question(world: World) -> None:
    stranger(world, "FLAW")
    server = world.server("one")
    world.call(server, "create_environment", name="theirs", hub="somebody/theirs@1.0.0")
    world.call(server, "check_environment", environment="theirs")
    assert world.call(server, "test_reward", environment="theirs").status == "failed"
    assert submit(world, "somebody/theirs@1.0.0").status == "passed"
    assert "test_reward (said) failed here on the files of somebody/theirs@1.0.0" in world.questions[-1]


def test_pulling_our_own_files_back_from_a_friend_does_not_make_them_the_friends(world: World) -> None:
    files = known_here(world)
    world.publish_by_hand("friend/lent", "0.1.0", files)
    shutil.rmtree(world.workspace("one") / "environments" / "sums")
    server = world.server("one")
    assert world.call(server, "create_environment", name="lent", hub="friend/lent@0.1.0").status == "passed"
    assert submit(world, "friend/lent@0.1.0").status == "blocked"


def test_files_that_could_not_be_fetched_are_named_in_the_question(world: World) -> None:
    stranger(world)
    (world.hub / "files-are-down").touch()
    assert submit(world, "somebody/theirs@1.0.0").status == "passed"
    assert "whether somebody/theirs@1.0.0 holds files of this machine is not known" in world.questions[-1]


def test_where_the_owner_cannot_be_asked_the_name_of_a_local_project_counts(world: World) -> None:
    stranger(world)
    (world.hub / "nobody-is-logged-in").touch()
    folder = world.write("one", "theirs")
    (folder / "pyproject.toml").write_text(worlds.PYPROJECT.replace('"sums"', '"theirs"'), encoding="utf-8")
    report = submit(world, "somebody/theirs@1.0.0")
    assert report.status == "blocked"
    assert any("was not pushed through this server" in unmet.detail for unmet in report.unmet)


@pytest.mark.parametrize("fault", ["teams-are-down", "nobody-is-logged-in", "many-teams"])
def test_an_environment_is_a_strangers_only_after_account_and_all_teams_were_asked(world: World, fault: str) -> None:
    stranger(world)
    (world.hub / fault).touch()
    report = submit(world, "somebody/theirs@1.0.0")
    assert (report.status, world.runs()) == ("blocked", [])
    assert any(u.why == "inconclusive" and "could not be asked" in u.detail for u in report.unmet), report
    assert {u.tool for u in report.unmet} == {"preflight"}
    (world.hub / fault).unlink()
    assert submit(world, "somebody/theirs@1.0.0").status == "passed"


def test_what_the_own_account_holds_needs_its_proof_where_only_the_teams_cannot_be_asked(world: World) -> None:
    known_here(world, "sound")
    files = changed(world.files("one", "sums"), "sums/taskset.py", "# other\n")
    world.publish_by_hand("me/elsewhere", "0.1.0", files)
    (world.hub / "teams-are-down").touch()
    report = submit(world, "me/elsewhere@0.1.0", "two")
    assert (report.status, world.runs()) == ("blocked", [])
    assert any("was not pushed through this server" in unmet.detail for unmet in report.unmet)


def test_a_pull_of_the_own_files_while_nobody_could_be_asked_does_not_make_them_a_strangers(world: World) -> None:
    files = stranger(world)
    world.publish_by_hand("me/theirs", "1.0.0", files)
    (world.hub / "nobody-is-logged-in").touch()
    server = world.server("one")
    assert world.call(server, "create_environment", name="theirs", hub="me/theirs@1.0.0").status == "passed"
    assert world.call(server, "check_environment", environment="theirs").status == "passed"
    (world.hub / "nobody-is-logged-in").unlink()
    world.publish_by_hand("friend/lent", "1.0.0", files)
    assert submit(world, "friend/lent@1.0.0").status == "blocked"


def test_the_question_says_what_had_not_to_be_proven(world: World) -> None:
    world.publish_foreign()
    assert submit(world, worlds.FOREIGN).status == "passed"
    assert f"nothing had to be proven here: {worlds.FOREIGN}" in world.questions[-1]
    world.write("one", "sums")
    for tool in (*PROOF, "push_environment"):
        assert world.call(world.server("one"), tool, environment="sums").status == "passed"
    assert submit(world, "me/sums@0.1.0").status == "passed"
    assert "had to be proven" not in world.questions[-1]
