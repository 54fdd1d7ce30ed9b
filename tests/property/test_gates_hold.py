"""No order of calls, edits, restarts, renames, workspaces or servers pushes or trains what is not freshly proven."""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.server.call import Calls
from tests.property.world import FOREIGN, MODEL, WORDS, World

pytestmark = pytest.mark.slow
FATAL = ("FLAW", "DEAD", "BROKEN")
SPACES = ("one", "two")
words = st.sampled_from(("sound", "sound too", "sound", "sound too", *WORDS))


class Machine(RuleBasedStateMachine):
    """Two workspaces, two servers each on one ledger; folders are known by the name they have now."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Path(tempfile.mkdtemp(prefix="gates-")))
        self.servers: dict[str, list[Calls]] = {
            space: [self.world.server(space), self.world.server(space)] for space in SPACES
        }
        self.folders: dict[str, str] = {}
        self.undo: dict[str, dict[str, str]] = {}
        self.configs: dict[str, list[str]] = {space: [] for space in SPACES}
        self.trained = 0

    @initialize(word=words)
    def begin(self, word: str) -> None:
        self.world.write("one", "sums", word)
        self.folders["one"] = "sums"

    def teardown(self) -> None:
        self.world.close()
        shutil.rmtree(self.world.root, ignore_errors=True)

    def call(self, space: str, which: int, tool: str, **arguments: Any) -> Report:
        return self.world.call(self.servers[space][which], tool, **arguments)

    # What an agent or a person does to the files

    @rule(space=st.sampled_from(SPACES), word=words)
    def edit(self, space: str, word: str) -> None:
        folder = self.folders.get(space)
        if folder is None:
            return
        path = self.world.workspace(space) / "environments" / folder
        self.undo[space] = {
            p.relative_to(path).as_posix(): p.read_text("utf-8") for p in path.rglob("*") if p.is_file()
        }
        text = (path / "sums" / "taskset.py").read_text(encoding="utf-8")
        line = next(line for line in text.splitlines() if "reward =" in line)
        (path / "sums" / "taskset.py").write_text(text.replace(line, f'    reward = "{word}"'), encoding="utf-8")

    @rule(space=st.sampled_from(SPACES))
    def revert(self, space: str) -> None:
        for name, text in self.undo.get(space, {}).items():
            path = self.world.workspace(space) / "environments" / self.folders[space] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    @rule(
        space=st.sampled_from(SPACES),
        readme=st.sampled_from("abc"),
        version=st.sampled_from(["0.1.0", "0.1.1", "0.2.0"]),
    )
    def touch_readme_and_version(self, space: str, readme: str, version: str) -> None:
        folder = self.folders.get(space)
        if folder is None:
            return
        path = self.world.workspace(space) / "environments" / folder
        (path / "README.md").write_text(f"# Sums\n{readme}\n", encoding="utf-8")
        manifest = (path / "pyproject.toml").read_text(encoding="utf-8")
        old = tomllib.loads(manifest)["project"]["version"]
        (path / "pyproject.toml").write_text(manifest.replace(old, version, 1), encoding="utf-8")

    @rule(space=st.sampled_from(SPACES), name=st.sampled_from(["sums", "renamed", "other_name"]))
    def rename(self, space: str, name: str) -> None:
        if space in self.folders:
            home = self.world.workspace(space) / "environments"
            (home / self.folders[space]).rename(home / name)
            self.folders[space] = name

    @precondition(lambda self: "two" not in self.folders)
    @rule()
    def copy_to_the_second_workspace(self) -> None:
        home = self.world.workspace("one") / "environments" / self.folders["one"]
        shutil.copytree(home, self.world.workspace("two") / "environments" / "sums")
        self.folders["two"] = "sums"

    @rule(space=st.sampled_from(SPACES), which=st.integers(0, 1))
    def restart(self, space: str, which: int) -> None:
        self.servers[space][which] = self.world.server(space)

    # What an agent calls

    @rule(
        space=st.sampled_from(SPACES),
        which=st.integers(0, 1),
        tool=st.sampled_from(["check_environment", "test_reward", "run_eval", "check_reward_distribution"]),
    )
    def prove(self, space: str, which: int, tool: str) -> None:
        if space in self.folders:
            self.call(space, which, tool, environment=self.folders[space])

    @rule(space=st.sampled_from(SPACES), which=st.integers(0, 1), steps=st.integers(3, 9))
    def do_as_the_reports_say(self, space: str, which: int, steps: int) -> None:
        """Without this, random calls hardly ever get as far as a run."""
        folder = self.folders.get(space)
        for _ in range(steps if folder else 0):
            report = self.call(space, which, "submit_training", environment=folder, model=MODEL, steps=10)
            self._judge_new_runs()
            if report.data.get("config_path"):
                self.configs[space].append(str(report.data["config_path"]))
            if not report.unmet:
                return
            tool = report.unmet[0].tool
            given = {"bump": "patch"} if tool == "push_environment" else {}
            self.call(space, which, tool, environment=folder, **given)

    @rule(space=st.sampled_from(SPACES), which=st.integers(0, 1), bump=st.sampled_from([None, "patch"]))
    def push(self, space: str, which: int, bump: str | None) -> None:
        if space in self.folders:
            given = {"bump": bump} if bump else {}
            self.call(space, which, "push_environment", environment=self.folders[space], **given)

    @rule(space=st.sampled_from(SPACES), which=st.integers(0, 1), foreign=st.booleans(), local=st.booleans())
    def write_config(self, space: str, which: int, foreign: bool, local: bool) -> None:
        pushed = self.world.pushes()
        source = FOREIGN if foreign else f"{pushed[-1]['ref']}@{pushed[-1]['version']}" if pushed else "me/sums@0.1.0"
        if local:
            source = "sums"
        report = self.call(space, which, "write_training_config", environments=[source], model=MODEL, steps=10)
        path = report.data.get("path")
        if path:
            self.configs[space].append(str(path))

    @rule(space=st.sampled_from(SPACES), which=st.integers(0, 1), by_name=st.booleans(), again=st.booleans())
    def submit(self, space: str, which: int, by_name: bool, again: bool) -> None:
        if by_name and space in self.folders:
            given: dict[str, Any] = {"environment": self.folders[space], "model": MODEL, "steps": 10}
        elif self.configs[space]:
            given = {"config": self.configs[space][-1]}
        else:
            return
        self.call(space, which, "submit_training", again=again, **given)
        self._judge_new_runs()

    @rule(space=st.sampled_from(SPACES), which=st.integers(0, 1), word=words, undo=st.booleans())
    def publish_then_edit_then_submit(self, space: str, which: int, word: str, undo: bool) -> None:
        """A config is written for what was published; only then the files change."""
        self.do_as_the_reports_say(space, which, 6)
        self.write_config(space, which, foreign=False, local=False)
        self.edit(space, word)
        if undo:
            self.revert(space)
        self.submit(space, which, by_name=False, again=True)

    @rule()
    def runs_end(self) -> None:
        self.world.end_runs()

    def _judge_new_runs(self) -> None:
        """Right after a submission, while the disk is still as it was."""
        runs = self.world.runs()
        for run in runs[self.trained :]:
            table = tomllib.loads(run["config"])
            for entry in table["orchestrator"]["train"]["source"]:
                self._judge_source(entry["env"]["taskset"]["id"])
        self.trained = len(runs)

    def _judge_source(self, id: str) -> None:
        if id == FOREIGN:
            return
        ref, _, version = id.partition("@")
        pushed = [p for p in self.world.pushes() if p["ref"] == ref and p["version"] == version]
        assert pushed, f"{id} was trained without having been pushed"
        assert not any(word in str(pushed[-1]["files"]) for word in FATAL), f"flawed {id} was trained"
        code = pushed[-1]["files"]["sums/taskset.py"]
        copies = [self.world.workspace(s) / "environments" / f / "sums" / "taskset.py" for s, f in self.folders.items()]
        assert code in [path.read_text(encoding="utf-8") for path in copies], (
            f"{id} was trained after its source changed"
        )

    @invariant()
    def nothing_flawed_or_unproven_was_pushed(self) -> None:
        ledger = self.servers["one"][0].lab.ledger
        for push in self.world.pushes():
            assert not any(word in str(push["files"]) for word in FATAL), "a flawed environment was pushed"
            rows = [p for p in ledger.pushes() if p.version == push["version"]]
            for row in rows:
                proven = {e.tool for e in ledger.evidence(row.workspace, source=row.source) if e.status == "passed"}
                assert {"test_reward", "check_reward_distribution", "check_environment"} <= proven

    @invariant()
    def every_run_has_a_name_of_its_own(self) -> None:
        names = [run["name"] for run in self.world.runs()]
        assert len(names) == len(set(names)), "the same intent was submitted twice"


@pytest.mark.rotate(share=3)
@pytest.mark.parametrize("block", range(5))
def test_no_order_of_calls_pushes_or_trains_what_is_not_proven(block: int) -> None:
    """Each block draws examples of its own."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=5,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )


# No path deadlocks: following what the reports say always leads to a run.


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(tmp_path)
    yield made
    made.close()


def follow(world: World, server: Calls, environment: str, calls: int = 16) -> list[str]:
    """An agent that only does what the reports tell it to, until a run is submitted."""
    walked: list[str] = []
    for _ in range(calls):
        report = world.call(server, "submit_training", environment=environment, model=MODEL, steps=10)
        walked.append(f"submit_training: {report.status}")
        if report.status == "passed":
            return walked
        assert report.unmet, (walked, report)
        tool = report.unmet[0].tool
        given: dict[str, Any] = {"bump": "patch"} if tool == "push_environment" else {}
        did = world.call(server, tool, environment=environment, **given)
        walked.append(f"{tool}: {did.status}")
    raise AssertionError(f"no run after {calls} calls: {walked}")


def test_a_handwritten_environment_reaches_a_run_by_following_the_reports(world: World) -> None:
    world.write("one", "sums")
    assert follow(world, world.server("one"), "sums")[-1] == "submit_training: passed"


def test_it_reaches_a_run_again_after_an_edit_a_bump_and_a_rename(world: World) -> None:
    server = world.server("one")
    path = world.write("one", "sums")
    follow(world, server, "sums")
    world.write("one", "sums", "sound too")
    assert follow(world, server, "sums")[-1] == "submit_training: passed"
    path.rename(path.with_name("renamed"))
    assert follow(world, world.server("one"), "renamed")[-1] == "submit_training: passed"
    assert len(world.runs()) == 2


def test_it_reaches_a_run_on_the_rehearsal_platform_too(world: World) -> None:
    world.write("one", "sums")
    assert follow(world, world.server("one", "rehearsal"), "sums")[-1] == "submit_training: passed"


def test_the_fast_path_of_a_foreign_environment_asks_for_nothing_more(world: World) -> None:
    report = world.call(world.server("one"), "submit_training", environment=FOREIGN, model=MODEL, steps=10)
    assert report.status == "passed", report


def test_a_config_the_platform_could_not_be_asked_about_needs_a_confirmation_that_says_so(world: World) -> None:
    server = world.server("one")
    (world.hub / "validation-is-down").touch()
    written = world.call(server, "write_training_config", environments=[FOREIGN], model=MODEL, steps=10)
    checked = world.call(server, "check_training_config", path=written.data["path"])
    submitted = world.call(server, "submit_training", config=written.data["path"], yes=True)
    assert (checked.status, submitted.status) == ("inconclusive", "passed"), (checked, submitted)
    assert "could not be asked whether it accepts this config" in world.questions[-1]


def test_an_evaluation_of_another_model_is_named_in_the_question(world: World) -> None:
    server = world.server("one")
    world.write("one", "sums")
    follow(world, server, "sums")
    other = "Qwen/Qwen3-0.6B"
    submitted = world.call(server, "submit_training", environment="sums", model=other, steps=10)
    assert submitted.status == "passed", submitted
    assert MODEL in world.questions[-1]
    assert other in world.questions[-1]


def test_a_foreign_name_is_refused_when_this_machine_pushed_its_content(world: World) -> None:
    server = world.server("one")
    world.write("one", "sums", "FLAW")
    world.call(server, "workflow_status")
    disk = world.on_disk("one", "sums")
    files = {p: (disk.tree / p).read_text(encoding="utf-8") for p in disk.files}
    entry = {"ref": "me/disguised", "version": "0.1.0", "hash": disk.cli_hash, "files": files}
    (world.hub / "pushes").write_text(json.dumps([entry]), encoding="utf-8")
    report = world.call(server, "submit_training", environment="me/disguised@0.1.0", model=MODEL, steps=10)
    assert report.status == "blocked"
    assert report.unmet[0].tool == "push_environment"
    assert world.runs() == []
