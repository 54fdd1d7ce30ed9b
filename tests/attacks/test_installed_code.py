"""A package whose wheel installs other code than the folder that is tested: decoys, renamed and compiled files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.environment import package, wheel, wheel_contents
from prime_lab_mcp.lab.environment.requirements import wheel_requirements
from prime_lab_mcp.lab.environment.wheel import UnpackedWheel
from prime_lab_mcp.lab.interpreter import InstalledVersions
from tests.lab.environment import package_texts

pytestmark = pytest.mark.anyio
HONEST = "X = 1\n"


def findings(tmp_path: Path, folder: dict[str, str | None], installed: dict[str, str]) -> set[tuple[str, str]]:
    """What is said of a wheel that installs these texts."""
    read = package.read_package(package_texts.snapshot(tmp_path, folder))
    files = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in installed.items()}
    built = UnpackedWheel(tmp_path, files)
    lacking = wheel_contents.missing_from_wheel(read, built)
    return {(f.code, f.severity) for f in (*lacking, *wheel_contents.untested_files(read, built))}


@pytest.mark.parametrize(
    ("folder", "installed"),
    [
        pytest.param({}, {"thing.py": "EVIL = 1\n"}, id="other-text"),
        pytest.param({"src/thing.py": "EVIL = 1\n"}, {"thing.py": "EVIL = 1\n"}, id="decoy-beside-src"),
        pytest.param({"lib/more.py": HONEST}, {"thing.py": package_texts.V1, "more.py": HONEST}, id="renamed"),
        pytest.param(
            {"thing.py": None, "thing/__init__.py": package_texts.V1, "src/thing/__init__.py": "EVIL = 1\n"},
            {"thing/__init__.py": "EVIL = 1\n"},
            id="package-beside-src",
        ),
        pytest.param(
            {"more/thing.cpython-312.so": "ELF"},
            {"thing.py": package_texts.V1, "more/thing.cpython-312.so": "ELF"},
            id="compiled",
        ),
        pytest.param({"thing/__init__.py": HONEST}, {"thing.py": package_texts.V1}, id="package-instead-of-module"),
        pytest.param(
            {"more/fast.so": "ELF"},
            {"thing.py": package_texts.V1},
            id="compiled-in-the-folder-alone",
        ),
    ],
)
def test_a_wheel_that_installs_what_no_test_ran_is_refused(
    tmp_path: Path, folder: dict[str, str | None], installed: dict[str, str]
) -> None:
    assert ("wheel-differs", "blocker") in findings(tmp_path, folder, installed)


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("thing-0.1.0.data/data/lib/python3.11/site-packages/thing.py", "blocker"),
        ("thing-0.1.0.data/data/share/../lib/python3.11/site-packages/thing.py", "blocker"),
        ("thing-0.1.0.data/scripts/vf-eval", "blocker"),
        ("thing-0.1.0.data/data/share/thing/words.txt", "warning"),
    ],
)
def test_files_that_a_wheel_puts_outside_of_the_library_folder_are_refused(
    tmp_path: Path, path: str, severity: str
) -> None:
    """The folder held the file at the very path that it has in the wheel, so the file counted as tested."""
    said = findings(tmp_path, {path: HONEST}, {"thing.py": package_texts.V1, path: HONEST})
    assert ("wheel-differs", severity) in said


def test_modules_that_a_wheel_installs_beside_the_environment_are_named_and_refused_where_others_have_that_name(
    tmp_path: Path,
) -> None:
    """A wheel installed a `wandb` that changed the reward; the trainer imports that module, and no test does."""
    for name in ("wandb", "orjson", "triton"):
        beside = {f"{name}/__init__.py": HONEST}
        known = findings(tmp_path / name, dict(beside), {"thing.py": package_texts.V1, **beside})
        assert ("name-shadowed", "blocker") in known
    made = {"make_rows.py": HONEST}
    unused = findings(tmp_path / "a", dict(made), {"thing.py": package_texts.V1, **made})
    assert unused == {("wheel-top-level", "warning")}
    text = f"import words\n{package_texts.V1}"
    used = findings(tmp_path / "b", {"thing.py": text, "words.py": HONEST}, {"thing.py": text, "words.py": HONEST})
    assert used == {("wheel-top-level", "warning")}


@pytest.mark.parametrize("path", ["sitecustomize.py", "usercustomize.py", "zz.pth", "verifiers/v1/task.py", "json.py"])
def test_a_wheel_that_replaces_modules_of_others_is_refused(tmp_path: Path, path: str) -> None:
    found = findings(tmp_path, {path: HONEST}, {"thing.py": package_texts.V1, path: HONEST})
    assert ("name-shadowed", "blocker") in found


def test_a_module_beside_the_package_takes_no_place_of_another_distribution(tmp_path: Path) -> None:
    found = findings(tmp_path, {"datasets/__init__.py": HONEST}, {"thing.py": package_texts.V1})
    assert ("name-shadowed", "blocker") in found


@pytest.mark.parametrize(
    ("folder", "installed"),
    [
        ({}, {"thing.py": package_texts.V1, "README.md": package_texts.README}),
        (
            {"thing.py": None, "src/thing/__init__.py": package_texts.V1, "src/thing/rows.jsonl": "{}"},
            {"thing/__init__.py": package_texts.V1, "thing/rows.jsonl": "{}"},
        ),
        ({"tests/test_thing.py": HONEST}, {"thing.py": package_texts.V1}),
    ],
)
def test_a_wheel_of_the_tested_files_passes(
    tmp_path: Path, folder: dict[str, str | None], installed: dict[str, str]
) -> None:
    assert not {f for f in findings(tmp_path, folder, installed) if f[1] == "blocker"}


@pytest.mark.parametrize(
    "imports",
    [
        "from . import marker\n",
        "try:\n    from .marker import X\nexcept ImportError:\n    X = 0\n",
        "import importlib\ntry:\n    importlib.import_module('.marker', __package__)\nexcept ImportError:\n    pass\n",
        "load = __import__\nload('thing.marker')\n",
        "import tests.marker\n",
    ],
)
def test_a_module_that_only_the_folder_has_is_refused_however_it_is_imported(tmp_path: Path, imports: str) -> None:
    code = package_texts.V1 + imports
    folder: dict[str, str | None] = {
        "thing.py": None,
        "thing/__init__.py": code,
        "thing/marker.py": HONEST,
        "tests/__init__.py": "",
        "tests/marker.py": HONEST,
    }
    assert ("wheel-lacks-file", "blocker") in findings(tmp_path, folder, {"thing/__init__.py": code})


async def test_a_real_build_from_another_folder_is_refused(settings: Settings, tmp_path: Path) -> None:
    pyproject = (
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "thing"\nversion = "0.1.0"\ndynamic = ["dependencies"]\n'
        '[tool.setuptools]\npackages = ["thing"]\npackage-dir = {thing = "lib/thing"}\n'
        '[tool.setuptools.dynamic]\ndependencies = {file = ["lib/needs.txt"]}\n'
    )
    files: dict[str, str | None] = {
        "pyproject.toml": pyproject,
        "thing.py": None,
        "thing/__init__.py": package_texts.V1,
        "lib/thing/__init__.py": "EVIL = 1\n",
        "lib/needs.txt": "somebody-elses\n",
    }
    taken = package_texts.snapshot(tmp_path, files)
    built = await wheel.build_wheel(settings, taken, InstalledVersions.here().interpreter())
    read = package.read_package(taken)
    assert [f.code for f in wheel_contents.untested_files(read, built)] == ["wheel-differs"]
    assert [f.code for f in wheel_requirements(read, built.tree)] == ["undeclared-dependency"]


def test_what_only_other_machines_install_is_named(tmp_path: Path) -> None:
    pyproject = package_texts.pyproject("verifiers>=0.4.0,<0.5", "tomli; python_version < '3.11'")
    quiet = package_texts.told(tmp_path / "a", {"pyproject.toml": pyproject}, "undeclared-dependency")
    pyproject = package_texts.pyproject("verifiers>=0.4.0,<0.5", "evil; python_version != '3.99' and os_name == 'nt'")
    nowhere = package_texts.told(tmp_path / "b", {"pyproject.toml": pyproject}, "undeclared-dependency")
    both = "evil; python_version == '3.11'", "worse; python_version != '3.11'"
    pyproject = package_texts.pyproject("verifiers>=0.4.0,<0.5", *both)
    named = package_texts.told(tmp_path / "c", {"pyproject.toml": pyproject}, "undeclared-dependency")
    assert (quiet, nowhere, [f.severity for f in named]) == ([], [], ["warning"])
