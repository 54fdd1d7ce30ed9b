"""A build cannot put into the published wheel what the check did not see, and sees no key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from prime_lab_mcp.cli import person
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.environment import wheel as wheels
from prime_lab_mcp.lab.environment.build_code import may_build
from prime_lab_mcp.lab.environment.package import read_package
from prime_lab_mcp.lab.environment.static_checks import static_findings
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from prime_lab_mcp.tools.push_environment import TOOL as PUSH
from tests.property.world import World
from tests.tools.loopback import MODULE, desk
from tests.tools.loopback import pyproject as manifest

SYSTEM = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def blockers(tmp_path: Path, text: str, **files: str) -> list[str]:
    root = tmp_path / "tiny_sums"
    for path, content in {"pyproject.toml": text, "tiny_sums/__init__.py": MODULE, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    taken = take_snapshot(EnvironmentFolder("tiny_sums", root, "environments/tiny_sums"), tmp_path / "store")
    found = [f for f in static_findings(read_package(taken)) if f.code == "build-runs-code"]
    assert all(f.severity == "blocker" for f in found)
    return [f.message for f in found]


PLAIN = manifest("tiny_sums")
FLIT = """\
[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"
[project]
name = "tiny-sums"
version = "0.1.0"
description = "d"
"""
SETUPTOOLS = PLAIN.replace('"hatchling"', '"setuptools>=61"').replace("hatchling.build", "setuptools.build_meta")
RUNS_CODE = {
    "hatch hook": PLAIN + "\n[tool.hatch.build.hooks.custom]\n",
    "hatch hook of the wheel": PLAIN + '\n[tool.hatch.build.targets.wheel.hooks.custom]\npath = "x.py"\n',
    "hatch metadata hook": PLAIN + "\n[tool.hatch.metadata.hooks.custom]\n",
    "hatch version from code": PLAIN + '\n[tool.hatch.version]\nsource = "code"\npath = "a.py"\n',
    "unknown backend": PLAIN.replace("hatchling.build", "my_backend"),
    "backend in the package": PLAIN.replace("[build-system]", '[build-system]\nbackend-path = ["."]'),
    "backend from an address": PLAIN.replace('["hatchling"]', '["hatchling @ https://example.com/h.whl"]'),
    "plugin": PLAIN.replace('["hatchling"]', '["hatchling", "hatch-build-scripts"]'),
    "pdm hook": PLAIN + '\n[tool.pdm.build]\ncustom-hook = "x.py"\n',
    "flit imports for the description": FLIT.replace('description = "d"', 'dynamic = ["description"]'),
    "flit imports for the version": FLIT.replace('version = "0.1.0"', 'dynamic = ["version"]'),
    "flit imports for its own metadata": FLIT + '\n[tool.flit.metadata]\nmodule = "tiny_sums"\n',
    "distutils commands": PLAIN + '\n[tool.distutils.global]\ncommand-packages = "tiny_sums"\n',
    "setuptools attribute": PLAIN + '\n[tool.setuptools.dynamic]\nversion = {attr = "tiny_sums.V"}\n',
}


@pytest.mark.parametrize("text", RUNS_CODE.values(), ids=RUNS_CODE)
def test_whatever_runs_code_while_the_wheel_is_built_is_a_blocker(tmp_path: Path, text: str) -> None:
    assert len(blockers(tmp_path, text)) == 1


def test_a_setup_script_is_a_blocker(tmp_path: Path) -> None:
    assert "setup.py" in blockers(tmp_path, PLAIN, **{"setup.py": ""})[0]


SETUP_CFG = {
    "command class": "[options]\ncmdclass =\n    egg_info = info.Info\n",
    "attribute": "[metadata]\nversion = attr: tiny_sums.V\n",
    "command packages": "[global]\ncommand_packages = tiny_sums\n",
}


@pytest.mark.parametrize("content", SETUP_CFG.values(), ids=SETUP_CFG)
def test_settings_of_setuptools_that_import_code_of_the_package_are_a_blocker(tmp_path: Path, content: str) -> None:
    text = SETUPTOOLS + '\n[tool.hatch.build]\ninclude = ["setup.cfg"]\n'
    assert "setup.cfg" in blockers(tmp_path, text, **{"setup.cfg": content})[0]
    assert blockers(tmp_path / "plain", text, **{"setup.cfg": "[flake8]\nmax-line-length = 120\n"}) == []


@pytest.mark.parametrize(
    ("text", "file", "content"),
    [
        (SETUPTOOLS, "x.dist-info/entry_points.txt", "[distutils.commands]\nbuild_py = tiny_sums:Build\n"),
        (PLAIN.replace(SYSTEM, ""), "wheel.py", ""),
    ],
    ids=["plugin", "module before the backend's"],
)
def test_what_setuptools_finds_in_the_package_is_build_code(tmp_path: Path, text: str, file: str, content: str) -> None:
    assert len(blockers(tmp_path, text, **{file: content})) == 1


def test_flit_reads_literals_without_running_code(tmp_path: Path) -> None:
    assert blockers(tmp_path / "plain", FLIT) == []
    text = FLIT.replace('version = "0.1.0"\ndescription = "d"', 'dynamic = ["version", "description"]')
    literals = '"""Sums."""\n__version__ = "0.1.0"\n'
    assert blockers(tmp_path, text, **{"tiny_sums/__init__.py": literals}) == []
    assert len(blockers(tmp_path / "b", text, **{"tiny_sums/__init__.py": literals.replace('"0.1.0"', "str(1)")})) == 1


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace(SYSTEM, ""),
        PLAIN.replace('"hatchling"', '"setuptools>=61", "wheel"').replace("hatchling.build", "setuptools.build_meta"),
        PLAIN.replace('"hatchling"', '"uv_build>=0.8"').replace("hatchling.build", "uv_build"),
    ],
    ids=["hatchling", "no build system", "setuptools", "uv"],
)
def test_a_plain_backend_is_none(tmp_path: Path, text: str) -> None:
    assert blockers(tmp_path, text) == []


def test_a_person_may_waive_a_build_hook_for_these_files(world: World) -> None:
    world.write("one", "sums")
    server = world.server("one")
    taken = world.on_disk("one", "sums")
    finding = {"code": "build-runs-code", "severity": "blocker"}
    present = world.loop.run_until_complete(present_distributions(server.lab, taken))
    row = Evidence("check_environment", "failed", server.lab.key, "sums", taken.source, taken.content)
    row = replace(row, findings=[finding], toolchain={DISTRIBUTIONS: present})
    server.lab.ledger.record(row)
    for tool in ("test_reward", "check_reward_distribution"):
        server.lab.ledger.record(replace(row, tool=tool, status="passed", findings=[]))
    assert world.call(server, "push_environment", environment="sums").status == "blocked"
    person.override(server.lab.settings, "sums", "build-runs-code", "I read the hook: it stamps a date")
    assert world.call(server, "push_environment", environment="sums").status == "passed"


HOOK = """
import json, os, pathlib
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        if any(name.startswith("PRIME_") for name in os.environ):
            pathlib.Path("SPOIL").write_text(json.dumps(sorted(os.environ)))
            pathlib.Path(self.root, "spoilt", "__init__.py").write_text("EVIL = True")
"""


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_push_sends_the_wheel_that_was_checked_and_no_build_sees_the_key(tmp_path: Path) -> None:
    """Even a hook that a person waived runs without the key, and what it builds is the wheel that is sent."""
    spoil = tmp_path / "spoil.json"
    async with desk(tmp_path) as at:
        folder = at.environment("spoilt")
        text = manifest("spoilt") + "\n[tool.hatch.build.hooks.custom]\n"
        (folder / "pyproject.toml").write_text(text, encoding="utf-8")
        (folder / "hatch_build.py").write_text(HOOK.replace("SPOIL", str(spoil)), encoding="utf-8")
        with pytest.raises(LabError, match="no person has waived"):
            await at.call(PUSH, environment="spoilt", visibility="PUBLIC")
        taken = take_snapshot(EnvironmentFolder("spoilt", folder, "environments/spoilt"), tmp_path / "store")
        at.lab.ledger.override(at.lab.key, "spoilt", taken.content, "build-runs-code", "I read the hook")
        pushed = await at.call(PUSH, environment="spoilt", visibility="PUBLIC")
        assert (pushed.status, pushed.data["compared"]) == ("passed", "equal")
        assert not spoil.exists(), json.loads(spoil.read_text(encoding="utf-8"))


@pytest.mark.anyio
async def test_a_wheel_that_cannot_be_built_is_not_pushed_and_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise wheels.WheelUnchecked("what builds it could not be fetched", fix="Check the network.")

    monkeypatch.setattr(wheels, "_run_build", fails)
    async with desk(tmp_path) as at:
        at.environment("unbuilt")
        with pytest.raises(LabError, match="nothing was sent") as raised:
            await at.call(PUSH, environment="unbuilt")
        assert raised.value.code == "wheel-not-pushed"
        assert await at.requests("POST", "/environmentshub") == []


def test_nothing_is_built_until_a_person_waived_the_code_for_these_files(tmp_path: Path) -> None:
    root = tmp_path / "tiny_sums"
    (root / "tiny_sums").mkdir(parents=True)
    (root / "tiny_sums" / "__init__.py").write_text(MODULE, encoding="utf-8")
    (root / "pyproject.toml").write_text(RUNS_CODE["hatch hook"], encoding="utf-8")
    taken = take_snapshot(EnvironmentFolder("tiny_sums", root, "environments/tiny_sums"), tmp_path / "store")
    assert not may_build(taken, set())
    assert not may_build(taken, {("other files", "build-runs-code"), (taken.content, "secret-in-files")})
    assert may_build(taken, {(taken.content, "build-runs-code")})
