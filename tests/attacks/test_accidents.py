"""Accidents that cost a verdict or the server: calls at the same time, cancelled calls, hanging code, bad arguments."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.environment import wheel
from prime_lab_mcp.lab.interpreter import InstalledVersions
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.conftest import TEMPLATES
from tests.lab.rewards.packages import SOUND, reward, write

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
