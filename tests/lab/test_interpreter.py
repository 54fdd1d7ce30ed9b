"""Which Python runs a package: the server's own where it fits, else one built for the requirements."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from prime_lab_mcp.lab import interpreter as module
from prime_lab_mcp.lab.base.errors import InterpreterError
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.interpreter import (
    InstalledVersions,
    Interpreters,
    interpreter_name,
    interpreter_requirements,
    read_interpreter,
)
from prime_lab_mcp.lab.toolchain import Toolchain

pytestmark = pytest.mark.anyio


def package(*dependencies: str, python: str = ">=3.11") -> dict[str, object]:
    return {"project": {"name": "x", "dependencies": list(dependencies), "requires-python": python}}


@pytest.fixture
def found(settings: Settings) -> Interpreters:
    return Interpreters(settings)


async def test_the_servers_own_interpreter_is_used_when_it_fits(found: Interpreters, settings: Settings) -> None:
    chosen = await found.for_package(package("verifiers>=0.4,<0.5"), api="v1")
    assert str(chosen.python) == sys.executable
    assert chosen.verifiers == "0.4.0"
    assert chosen.program("vf-eval") is not None
    assert not settings.interpreters.exists()


async def test_a_v0_package_gets_an_upper_bound_whatever_it_allows() -> None:
    (bounded,) = interpreter_requirements(package("verifiers>=0.1.10"), "v0")
    assert not bounded.specifier.contains("0.4.0", prereleases=True)
    assert bounded.specifier.contains("0.3.1")
    (free,) = interpreter_requirements(package("verifiers>=0.1.10"), "v1")
    assert free.specifier.contains("0.4.0")


async def test_a_package_that_forgot_verifiers_gets_it() -> None:
    assert {r.name for r in interpreter_requirements(package("numpy"), "v1")} == {"numpy", "verifiers"}
    assert not interpreter_requirements({}, "v0")[0].specifier.contains("0.4.0")


async def test_a_v0_package_gets_the_last_release_with_its_api_where_it_allows_it() -> None:
    (newest,) = interpreter_requirements(package("verifiers>=0.1.5,<0.2"), "v0")
    assert newest.specifier.contains("0.1.14")
    assert not newest.specifier.contains("0.1.6.post0")
    (older,) = interpreter_requirements(package("verifiers>=0.1.5,<0.1.9"), "v0")
    assert older.specifier.contains("0.1.8")


async def test_requirements_of_other_platforms_do_not_count() -> None:
    listed = interpreter_requirements(package("verifiers>=0.4", "pywin32; sys_platform == 'win32'"), "v1")
    assert [r.name for r in listed] == ["verifiers"]


@pytest.mark.parametrize("broken", [package("not a requirement!!"), package("verifiers", python="three")])
async def test_what_cannot_be_read_is_named(found: Interpreters, broken: dict[str, object]) -> None:
    with pytest.raises(InterpreterError, match=r"pyproject\.toml") as raised:
        await found.for_package(broken)
    assert raised.value.fix


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("verifiers>=0.4", True),
        ("Verifiers==0.4.0", True),
        ("verifiers<0.4", False),
        ("no-such-distribution", False),
        ("verifiers @ https://example.org/verifiers.whl", False),
        ("anyio[trio]", False),
        ("uvicorn", True),
    ],
)
async def test_a_requirement_is_met_by_name_version_extra_and_origin(wanted: str, fits: bool) -> None:
    assert InstalledVersions.here().satisfies([Requirement(wanted)], SpecifierSet("")) is fits


async def test_the_python_range_counts(found: Interpreters) -> None:
    assert not InstalledVersions.here().satisfies([], SpecifierSet("<3.11"))


async def test_the_name_of_an_environment_follows_from_its_requirements() -> None:
    assert interpreter_name(["a", "b"], None) == interpreter_name(["b", "a", "a"], None)
    assert interpreter_name(["a"], None) != interpreter_name(["a"], SpecifierSet("<3.13"))


async def test_an_unfinished_environment_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").touch()
    assert read_interpreter(tmp_path) is None
    (tmp_path / "ready.json").write_text("{", encoding="utf-8")
    assert read_interpreter(tmp_path) is None
    told = {"python": "bin/python", "verifiers": "0.4.0", "key": "k"}
    (tmp_path / "ready.json").write_text(json.dumps(told), encoding="utf-8")
    ready = read_interpreter(tmp_path)
    assert ready is not None
    assert ready.key == "k"


@pytest.mark.slow
async def test_an_environment_is_built_once_by_whoever_comes_first(settings: Settings) -> None:
    told: list[str] = []

    async def say(message: str) -> None:
        told.append(message)

    chosen: list[module.Interpreter] = []

    async def build() -> None:
        chosen.append(await Interpreters(settings).build(["iniconfig==2.0.0"], progress=say))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(build)
    assert len({c.key for c in chosen}) == 1
    assert sum(m.startswith("building") for m in told) == 1
    assert await module.installed_versions(chosen[0].python) == {"iniconfig": "2.0.0"}
    told.clear()
    await build()
    assert told == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "python", "code"),
    [
        (["iniconfig==2.0.0", "iniconfig==1.1.1"], None, "requirements-unsatisfiable"),
        (["iniconfig>=99"], None, "requirements-unsatisfiable"),
        (["iniconfig"], SpecifierSet("==3.99.*"), "python-missing"),
        (["iniconfig @ https://127.0.0.1:9/iniconfig-2.0.0-py3-none-any.whl"], None, "index-unreachable"),
    ],
)
async def test_what_uv_refuses_is_told_and_leaves_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, wanted: list[str], python: SpecifierSet | None, code: str
) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(InterpreterError) as raised:
        await Interpreters(settings).build(wanted, python_range=python)
    assert raised.value.code == code
    assert raised.value.fix
    assert not [p for p in settings.interpreters.iterdir() if p.is_dir()]


@pytest.mark.slow
async def test_a_python_that_does_not_start_is_passed_over(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """pyenv puts a shim on the search path for each of its versions, and those that are not chosen exit with 127."""
    other = f"3.{sys.version_info.minor + 1}"
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / f"python{other}").write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    (shims / f"python{other}").chmod(0o755)
    monkeypatch.setenv("PATH", str(shims))
    with pytest.raises(InterpreterError) as raised:
        await Interpreters(settings).build(["iniconfig"], python_range=SpecifierSet(f"=={other}.*"))
    assert raised.value.code == "python-missing"


async def test_a_toolchain_that_fits_is_shared(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = Toolchain(settings)
    place = settings.interpreters / interpreter_name(module_pins(), None, "toolchain-")
    site = place / "venv" / "lib" / "python3.11" / "site-packages" / "verifiers-0.4.0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: verifiers\nVersion: 0.4.0\n", encoding="utf-8")
    (place / "venv" / "bin").mkdir()
    (place / "venv" / "bin" / "python").touch()
    told = {"python": "bin/python", "verifiers": "0.4.0", "key": "tool"}
    (place / "ready.json").write_text(json.dumps(told), encoding="utf-8")
    assert toolchain.built is not None
    found = Interpreters(settings)
    found._own = InstalledVersions(Path("nowhere"), {}, "3.11.7")
    assert (await found.for_package(package("verifiers>=0.4"), api="v1")).key == "tool"


def module_pins() -> tuple[str, ...]:
    from prime_lab_mcp.lab.base.versions import TOOLCHAIN

    return TOOLCHAIN


async def test_the_toolchain_is_beside_the_server_when_installed_with_it(settings: Settings) -> None:
    toolchain = Toolchain(settings)
    assert str(toolchain.python_for_datasets()) == sys.executable
    assert toolchain.program("prime") == Path(sys.executable).parent / "prime"
    assert toolchain.program("no-such-program") is None
    versions = await toolchain.versions()
    assert versions["verifiers"] == "0.4.0"
    assert versions["prime"] == "0.18.0"
    assert versions["datasets"] is not None
