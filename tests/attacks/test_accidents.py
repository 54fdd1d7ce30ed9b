"""Accidents that cost a verdict or the server: calls at the same time, cancelled calls, hanging code, bad arguments."""

from __future__ import annotations

import os
import re
import time
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.base.load_deadline import LoadDeadline, load_deadline, shared_load_deadline
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.environment import wheel
from prime_lab_mcp.lab.interpreter import InstalledVersions
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from prime_lab_mcp.tools.tool import Arguments, Call, Tool
from tests.conftest import TEMPLATES
from tests.lab.rewards.packages import SOUND, reward, write
from tests.server.test_stdio import Server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def calls(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Calls]:
    """One lab for the module, because importing verifiers costs most. Every test has environments of its own names."""
    root = tmp_path_factory.mktemp("lab")
    (root / "workspace" / "environments").mkdir(parents=True)
    lab = Lab(Settings(workspace=root / "workspace", state_dir=root / "state", templates=TEMPLATES))
    yield Calls(lab, TOOLS, References())
    await lab.close()


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


async def test_checks_of_one_environment_at_the_same_time_agree(calls: Calls) -> None:
    write(calls.lab, "crowd", SOUND)
    reports: list[Report] = []

    async def check() -> None:
        reports.append(await calls.execute("check_environment", {"environment": "crowd"}))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(check)
    assert [(r.status, codes(r)) for r in reports] == [("passed", {"default-runtime"})] * 3, reports


async def test_wheels_of_one_package_that_are_built_at_the_same_time_do_not_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers share the folder of wheels, so a lock inside one process is not enough."""

    async def build(source: Path, scratch: Path, *_: Any, **__: Any) -> None:
        (scratch / "dist").mkdir()
        with zipfile.ZipFile(scratch / "dist" / "thing-0.1-py3-none-any.whl", "w") as archive:
            archive.write(source / "thing.py", "thing.py")
            for number in range(40):
                archive.writestr(f"thing-0.1.dist-info/F{number}", str(number))

    class NoLock:
        def setdefault(self, key: str, lock: anyio.Lock) -> anyio.Lock:
            return lock

    monkeypatch.setattr(wheel, "_run_build", build)
    monkeypatch.setattr(wheel, "_BUILDING", NoLock(), raising=False)
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "thing.py").write_text("", "utf-8")
    (folder / "pyproject.toml").write_text('[project]\nname = "thing"\nversion = "0.1"\n', "utf-8")
    snapshot = take_snapshot(EnvironmentFolder("thing", folder, "environments/thing"), tmp_path / "store")
    interpreter = InstalledVersions.here().interpreter()
    for turn in range(4):
        settings = Settings(workspace=tmp_path, state_dir=tmp_path / f"state-{turn}")
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(wheel.build_wheel, settings, snapshot, interpreter)
        assert [p.name for p in (settings.state_dir / "wheels").iterdir() if p.name.startswith(".")] == []


async def test_a_snapshot_that_several_calls_take_is_stored_once_and_never_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / "thing"
    folder.mkdir()
    for number in range(30):
        (folder / f"thing{number}.py").write_text("X = 1\n" * number, "utf-8")
    (folder / "pyproject.toml").write_text('[project]\nname = "thing"\nversion = "0.1"\n', "utf-8")
    named = EnvironmentFolder("thing", folder, "environments/thing")
    for turn in range(6):
        store = tmp_path / f"store-{turn}"
        inodes: set[int] = set()

        async def take(store: Path = store, inodes: set[int] = inodes) -> None:
            taken = await anyio.to_thread.run_sync(take_snapshot, named, store)
            inodes.add((taken.tree / "pyproject.toml").stat().st_ino)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(take)
        assert len(inodes) == 1, "a call's copy was replaced while the call worked with it"
        assert [p.name for p in store.iterdir() if p.name.startswith(".")] == []


async def test_a_damaged_snapshot_is_still_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "thing.py").write_text("X = 1\n", "utf-8")
    named = EnvironmentFolder("thing", folder, "environments/thing")
    tree = take_snapshot(named, tmp_path / "store").tree
    (tree / "thing.py").chmod(0o644)
    (tree / "thing.py").write_text("X = 2\n", "utf-8")
    assert (take_snapshot(named, tmp_path / "store").tree / "thing.py").read_text("utf-8") == "X = 1\n"
    assert [p.name for p in (tmp_path / "store").iterdir() if p.name.startswith(".")] == []


async def test_the_loads_of_one_call_share_one_deadline(calls: Calls) -> None:
    """A load that hangs holds a call for one limit, not for one limit in each place that loads."""
    folder = write(calls.lab, "hangs", SOUND)
    let_load_hang(folder)
    snapshot = await calls.lab.snapshot("hangs")
    said: list[str] = []
    started = time.monotonic()
    with shared_load_deadline(3.0):
        for _ in range(4):
            with pytest.raises(WorkerError) as error:
                async with open_environment(calls.lab, snapshot):
                    raise AssertionError("it does not load")
            said.append(re.findall(r"within ([0-9.]+) seconds", error.value.message)[0])
    assert float(said[0]) == 3.0
    assert [float(s) <= 0.5 for s in said[1:]] == [True] * 3, said
    assert time.monotonic() - started < 60


async def test_every_call_has_a_load_deadline_of_its_own(settings: Settings) -> None:
    given: list[LoadDeadline | None] = []

    class Nothing(Arguments):
        pass

    async def run(call: Call, args: Nothing) -> Outcome:
        given.append(load_deadline())
        return Outcome("passed", "fine")

    tool = Tool(name="look", title="Look", description="Looks.", args=Nothing, run=run, effect="executes")
    lab = Lab(settings)
    fresh = Calls(lab, (tool,), References())
    for _ in range(2):
        assert (await fresh.execute("look", {})).status == "passed"
    await lab.close()
    assert all(isinstance(deadline, LoadDeadline) for deadline in given)
    assert given[0] is not given[1]
    assert load_deadline() is None


async def test_a_ping_is_answered_while_forty_calls_run_and_are_cancelled(tmp_path: Path) -> None:
    """Threads of forty calls kept the server from reading its own input."""
    (tmp_path / "workspace" / "environments").mkdir(parents=True)
    lab = Lab(Settings(workspace=tmp_path / "workspace", state_dir=tmp_path / "elsewhere"))
    let_load_hang(write(lab, "hangs", SOUND))
    server = Server(tmp_path)
    try:
        server.start()
        server.call(2, "workflow_status")
        call = {"name": "test_reward", "arguments": {"environment": "hangs"}}
        for number in range(40):
            server.send({"jsonrpc": "2.0", "id": 100 + number, "method": "tools/call", "params": call})
        waited = [await answered(server, 900)]
        await anyio.sleep(4)
        for number in range(40):
            cancelled = {"requestId": 100 + number}
            server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
        waited += [await answered(server, 901), await answered(server, 902)]
        assert max(worked for worked, _ in waited) < 1.0, waited
        assert max(seconds for _, seconds in waited) < 8.0, waited
        assert server.call(3, "workflow_status")["status"] == "passed"
        assert server.stop() == 0
    finally:
        server.process.kill()
        server.process.wait()


def let_load_hang(folder: Path) -> None:
    path = folder / f"{folder.name}.py"
    text = path.read_text("utf-8")
    path.write_text(text.replace("def load(self):", "def load(self):\n        time.sleep(600)"), "utf-8")


async def answered(server: Server, id: int) -> tuple[float, float]:
    """Seconds until a ping is answered: of the server's own processor time, and by the clock.

    A machine that does other work stretches the second, and not the first.
    """
    clock = Path(f"/proc/{server.process.pid}/stat")

    def worked() -> float:
        user, system = clock.read_text("utf-8").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    started, before = time.monotonic(), worked()
    server.send({"jsonrpc": "2.0", "id": id, "method": "ping"})
    await anyio.to_thread.run_sync(server.receive, id)
    seconds = time.monotonic() - started
    return min(worked() - before, seconds), seconds


async def test_a_rendering_that_no_gold_satisfies_is_a_bad_argument_and_proves_nothing(calls: Calls) -> None:
    lab = calls.lab
    write(lab, "tagged", SOUND)
    given: dict[str, Any] = {"environment": "tagged", "examples": 2, "probes": False}
    report = await calls.execute("test_reward", {**given, "rendering": "<final>GOLD</final>"})
    assert (report.status, codes(report)) == ("error", {"bad-argument"}), report
    assert [row for row in lab.ledger.evidence(lab.key) if row.tool == "test_reward"] == []
    assert report.next[0].tool == "test_reward"
    again = await calls.execute("test_reward", dict(report.next[0].arguments or {}))
    assert again.status == "passed", again


async def test_a_rendering_that_is_paid_for_its_form_alone_is_a_bad_argument_too(calls: Calls) -> None:
    form = reward("return float('<final>' in reply)", name="form", weight=0.2)
    write(calls.lab, "formed", SOUND + form)
    given = {"environment": "formed", "examples": 2, "rendering": "<final>GOLD</final>"}
    report = await calls.execute("test_reward", given)
    assert (report.status, codes(report)) == ("error", {"bad-argument"}), report


@pytest.mark.parametrize(
    "path",
    [
        ".prime/.env-metadata.json",
        ".PRIME/.env-metadata.json",
        "./.prime/x",
        "sub/.Prime/x",
        ".prime",
        "link/.env-metadata.json",
        ".prime./x",
        ".pri\u200bme/x",
    ],
)
async def test_prime_s_own_records_are_not_edited(calls: Calls, path: str) -> None:
    folder = calls.lab.workspace.environments / "recorded"
    if not folder.exists():
        write(calls.lab, "recorded", SOUND)
        (folder / ".prime").mkdir()
        (folder / ".prime" / ".env-metadata.json").write_text("{}", "utf-8")
        (folder / "link").symlink_to(".prime", target_is_directory=True)
    given = {"environment": "recorded", "path": path, "new": '{"owner": "me"}'}
    report = await calls.execute("edit_environment", given)
    assert (report.status, codes(report)) == ("error", {"not-editable"}), report
    assert (folder / ".prime" / ".env-metadata.json").read_text("utf-8") == "{}"
    given = {"environment": "environments/recorded/.prime", "path": ".env-metadata.json", "new": "{}"}
    assert codes(await calls.execute("edit_environment", given)) == {"not-editable"}
    assert sorted(p.name for p in folder.iterdir()) == [".prime", "README.md", "link", "pyproject.toml", "recorded.py"]


RUNS = '[core]\n\tfsmonitor = "touch pwned"\n'
"""git runs this command at every `git status`."""


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        (".git", "config"),
        (".git/hooks", "post-checkout"),
        ("environments/hidden", ".git/config"),
        ("environments/hidden", ".vscode/tasks.json"),
        ("environments/hidden", ".envrc"),
        ("environments/hidden", "\u200b.git/config"),
        ("scripts", "build.py"),
    ],
)
async def test_what_programs_of_the_user_run_is_not_edited(calls: Calls, environment: str, path: str) -> None:
    """git and editors run what hidden files say, outside of every confinement."""
    root = calls.lab.workspace.root
    if not (root / "environments" / "hidden").exists():
        write(calls.lab, "hidden", SOUND)
    for folder in (".git/hooks", "scripts"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    before = sorted(p for p in root.rglob("*"))
    given = {"environment": environment, "path": path}
    for change in ({"new": RUNS}, {"move_to": "x"}, {"delete": True}):
        report = await calls.execute("edit_environment", given | change)
        assert codes(report) == {"not-editable"}, report
    moved = {"environment": environment, "path": "README.md", "move_to": path}
    assert codes(await calls.execute("edit_environment", moved)) == {"not-editable"}
    assert sorted(p for p in root.rglob("*")) == before


async def test_the_hidden_file_that_a_push_reads_is_edited(calls: Calls) -> None:
    write(calls.lab, "ignoring", SOUND)
    given = {"environment": "ignoring", "path": ".gitignore", "new": "outputs/\n"}
    assert (await calls.execute("edit_environment", given)).status == "passed"
