"""What the Hub holds is believed by its files, and each outcome of the comparison has its own report."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_lab_mcp.cli import person
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.hub.hub_files import HubFiles, ProvenFiles, compare_hub_files, files_digest
from prime_lab_mcp.lab.state.snapshot import cli_hash
from prime_lab_mcp.tools.push_environment import TOOL as PUSH
from tests.property.world import MODEL, World
from tests.tools.loopback import Desk, desk

PROOF = ("check_environment", "test_reward", "run_eval", "check_reward_distribution")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def proven(world: World) -> None:
    world.write("one", "sums")
    server = world.server("one")
    for tool in PROOF:
        assert world.call(server, tool, environment="sums").status == "passed"


def push(world: World) -> Report:
    return world.call(world.server("one"), "push_environment", environment="sums")


def submit(world: World) -> Report:
    return world.call(world.server("one"), "submit_training", environment="sums", model=MODEL, steps=10)


def exchanged(world: World) -> dict[str, str]:
    """Another tree with the CLI's hash of the proven one: a file that holds what were two files."""
    files = world.files("one", "sums")
    first, second = sorted(path for path in files if path.startswith("sums/"))[:2]
    other = {path: text for path, text in files.items() if path != second}
    other[first] = files[first] + f"file:{second}" + files[second]
    assert cli_hash({p: t.encode() for p, t in other.items()}) == world.on_disk("one", "sums").cli_hash
    return other


def test_a_bad_tree_with_the_hash_of_the_proven_one_is_not_taken_for_it(world: World) -> None:
    proven(world)
    world.publish_by_hand("me/sums", "0.1.0", exchanged(world), world.on_disk("one", "sums").cli_hash)
    report = push(world)
    assert (report.status, report.findings[0].code) == ("failed", "hub-content-differs")
    assert "sums/__init__.py" in report.findings[0].message
    assert submit(world).status == "blocked"
    assert world.runs() == []


def test_what_was_exchanged_after_the_push_is_noticed_before_a_submission(world: World) -> None:
    proven(world)
    assert push(world).status == "passed"
    held = json.loads((world.hub / "pushes").read_text(encoding="utf-8"))
    held[-1]["files"] = exchanged(world)
    (world.hub / "pushes").write_text(json.dumps(held), encoding="utf-8")
    report = submit(world)
    assert report.status == "blocked"
    assert "the archive of me/sums@0.1.0 on the Hub is not what was validated" in report.unmet[0].detail


def test_a_person_waives_a_difference_for_that_version_and_the_question_names_it(world: World) -> None:
    proven(world)
    world.publish_by_hand("me/sums", "0.1.0", exchanged(world), world.on_disk("one", "sums").cli_hash)
    push(world)
    settings = world.server("one").lab.settings
    assert person.override(settings, "sums", "hub-content-differs", "the file was split by hand, and I read it") == 0
    assert submit(world).status == "passed"
    assert "a person waived that the archive of me/sums@0.1.0" in world.questions[-1]


def test_files_that_were_not_fetched_are_named_in_the_question_of_a_submission(world: World) -> None:
    proven(world)
    (world.hub / "files-are-down").touch()
    pushed = push(world)
    assert (pushed.status, pushed.data["verified"], pushed.data["compared"]) == ("passed", "sent", "unfetched")
    assert [f.code for f in pushed.findings] == ["hub-files-not-compared"]
    assert submit(world).status == "passed"
    assert "could not be compared with what was validated" in world.questions[-1]


def test_files_that_are_there_already_and_cannot_be_fetched_are_recorded_only_after_a_question(world: World) -> None:
    proven(world)
    world.publish_by_hand("me/sums", "0.1.0", world.files("one", "sums"), world.on_disk("one", "sums").cli_hash)
    (world.hub / "files-are-down").touch()
    assert push(world).status == "passed"
    assert "without sending anything" in world.questions[-1]
    assert "could not be compared" in world.questions[-1]


def test_of_a_private_push_the_archive_is_compared_and_nothing_is_asked(world: World) -> None:
    proven(world)
    pushed = push(world)
    assert (pushed.data["verified"], pushed.data["compared"]) == ("hub", "archive-only")
    assert [f.code for f in pushed.findings] == ["hub-wheel-not-served"]
    asked = len(world.questions)
    assert push(world).data["deduplicated"]
    assert len(world.questions) == asked


# The comparison

FILES = {"pyproject.toml": "p", "sums/__init__.py": "a", "sums/data.json": "d"}
WHEEL = {path: digest for path, digest in FILES.items() if "/" in path}


@pytest.mark.parametrize(
    ("held", "outcome", "asks"),
    [
        (HubFiles(FILES, "s", "c", WHEEL), "equal", False),
        (HubFiles(FILES, "s", "other", WHEEL), "different", False),
        (HubFiles(FILES, "s", "c", {**WHEEL, "sums/__init__.py": "evil"}), "different", False),
        (HubFiles(FILES, "s", "c", {**WHEEL, "evil.py": "a"}), "different", False),
        (HubFiles(FILES, "s", "c", None, True, ("its wheel could not be fetched",)), "wheel-unfetched", True),
        (HubFiles(FILES, "s", "c", None, False), "archive-only", False),
        (HubFiles(None, None, None, WHEEL, True, ("its archive could not be fetched",)), "wheel-only", True),
        (HubFiles(None, None, None, None, True, ("the network is down",)), "unfetched", True),
    ],
)
def test_each_outcome_of_the_comparison_is_told_apart(held: HubFiles, outcome: str, asks: bool) -> None:
    found = compare_hub_files(held, ProvenFiles("c", FILES, files_digest(WHEEL)), "me/sums@0.1.0")
    assert found.outcome == outcome
    assert (found.caution is not None) is asks


@pytest.mark.parametrize(("served", "outcome"), [("sent", "equal"), ("other", "different"), (None, "equal")])
def test_a_wheel_that_requires_other_packages_is_not_the_one_that_was_sent(served: str | None, outcome: str) -> None:
    held = HubFiles(FILES, "s", "c", WHEEL, wheel_metadata=served)
    proven = ProvenFiles("c", FILES, files_digest(WHEEL), "sent")
    assert compare_hub_files(held, proven, "me/sums@0.1.0").outcome == outcome


def test_without_the_digest_of_a_sent_wheel_its_files_are_compared_by_path_and_a_missing_one_is_asked_about() -> None:
    unknown = ProvenFiles("c", FILES)
    assert compare_hub_files(HubFiles(FILES, "s", "c", WHEEL), unknown, "x").outcome == "equal"
    swapped = {"sums/__init__.py": "d", "sums/data.json": "a"}
    assert compare_hub_files(HubFiles(FILES, "s", "c", swapped), unknown, "x").outcome == "different"
    assert compare_hub_files(HubFiles(FILES, "s", "c", None, False), unknown, "x").caution is not None


# With the real prime against the rehearsal, which serves archive and wheel


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_public_push_is_compared_by_archive_and_wheel_and_a_forged_wheel_is_noticed(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.environment("both")
        pushed = await at.call(PUSH, environment="both", visibility="PUBLIC")
        assert (pushed.status, pushed.data["verified"], pushed.data["compared"]) == ("passed", "hub", "equal")
        await forge_wheel(at, "both")
        again = await at.call(PUSH, environment="both")
        assert (again.status, again.blockers[0].code) == ("failed", "hub-content-differs")
        assert "the wheel of rehearsal/both@0.1.0" in again.blockers[0].message


async def forge_wheel(at: Desk, name: str) -> None:
    """Replace the wheel in the store of the rehearsal platform."""
    blobs = [p for p in at.workspace.parent.joinpath("platform").rglob("*") if p.is_file() and zipfile.is_zipfile(p)]
    forged = False
    for blob in blobs:
        with zipfile.ZipFile(blob) as wheel:
            files = {entry: wheel.read(entry) for entry in wheel.namelist()}
        if f"{name}/__init__.py" not in files:
            continue
        files[f"{name}/__init__.py"] += b"\nEVIL = True\n"
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as wheel:
            for path, data in files.items():
                wheel.writestr(path, data)
        blob.chmod(0o644)
        blob.write_bytes(out.getvalue())
        forged = True
    assert forged, blobs
