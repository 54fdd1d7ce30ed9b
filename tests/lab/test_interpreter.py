"""Which Python runs a package: the server's own where it fits, else one built for the requirements."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
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
    (older, other) = interpreter_requirements(package("verifiers>=0.1.5,<0.1.9", "numpy"), "v0")
    assert older.specifier.contains("0.1.8")
    assert str(other) == "numpy"


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


async def test_the_extras_of_another_python_are_not_known() -> None:
    other = InstalledVersions(Path("python"), {"anyio": "4.9"}, "3.11.7")
    assert other.satisfies([Requirement("anyio")], SpecifierSet(""))
    assert not other.satisfies([Requirement("anyio[trio]")], SpecifierSet(""))


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
    # A folder that its packages can write is no installation.
    assert ready.base == Path(sys.executable)
    (tmp_path / "ready.json").write_text(json.dumps({**told, "base": "/usr/bin/python3"}), encoding="utf-8")
    assert read_interpreter(tmp_path) == replace(ready, base=Path("/usr/bin/python3"))


VENV = 'for last; do :; done; if [ "$1" = venv ]; then mkdir -p "$last/bin"; : > "$last/bin/python"; fi\n'
"""What uv does for `uv venv ... FOLDER`, without a Python in it."""


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write the program that runs in the place of uv, in the language of the shell."""
    program = tmp_path / "uv"

    def write(body: str) -> None:
        program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n{body}', encoding="utf-8")
        program.chmod(0o755)

    monkeypatch.setattr(module, "uv_program", lambda: program)
    return write


@pytest.mark.parametrize(
    ("printed", "code"),
    [
        ("No solution found when resolving dependencies", "requirements-unsatisfiable"),
        ("No interpreter found for Python 3.99", "python-missing"),
        ("invalid peer certificate: UnknownIssuer", "index-unreachable"),
        ("error sending request for url", "index-unreachable"),
        ("nothing that is known", "requirements-failed"),
    ],
)
async def test_what_uv_says_has_a_code_and_leaves_nothing(
    settings: Settings, uv: Callable[[str], None], printed: str, code: str
) -> None:
    uv(f"echo '{printed}' >&2; exit 2\n")
    with pytest.raises(InterpreterError) as raised:
        await Interpreters(settings).build(["x"])
    assert raised.value.code == code
    assert raised.value.fix
    assert not [p for p in settings.interpreters.iterdir() if p.is_dir()]


async def test_an_environment_that_was_built_is_used_by_the_next_call(
    settings: Settings, uv: Callable[[str], None], tmp_path: Path
) -> None:
    uv(VENV)
    told: list[str] = []

    async def say(message: str) -> None:
        told.append(message)

    found = Interpreters(settings)
    required = package("no-such-distribution")
    assert await found.present(required) is None
    built = await found.for_package(required, progress=say)
    assert told == ["building a Python environment with no-such-distribution, verifiers<0.5,>=0.4.0"]
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert await found.present(required) == await found.for_package(required, progress=say) == built
    assert (len(told), (tmp_path / "asked").read_text(encoding="utf-8")) == (1, asked)


async def test_sources_without_a_wheel_that_are_known_are_installed_by_their_hash(
    settings: Settings, uv: Callable[[str], None], tmp_path: Path
) -> None:
    uv(
        VENV + 'case "$*" in *--require-hashes*|venv*) exit 0;; esac\n'
        "[ -e sources.txt ] || { echo 'wget==3.2 has no usable wheels' >&2; exit 1; }\n"
    )
    built = await Interpreters(settings).build(["verifiers<0.2"])
    assert "wget==3.2 --hash=sha256:" in (built.python.parents[2] / "sources.txt").read_text(encoding="utf-8")
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert [("--require-hashes" in line, "--no-build" in line) for line in asked[1:]] == [
        (False, True),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("failing", "printed", "code"),
    [
        ("--no-build", "x==1 was not found in the index", "requirements-unsatisfiable"),
        ("building", "os error 13", "confined"),
    ],
)
async def test_where_a_package_has_no_wheel_its_build_runs_confined(
    settings: Settings, uv: Callable[[str], None], failing: str, printed: str, code: str
) -> None:
    uv(
        VENV + f'case "$1 $* $PWD" in venv*) exit 0;; *{failing}*) echo "{printed}" >&2; exit 1;; esac\n'
        'case "$*" in *--no-build*) echo "x==1 has no usable wheels" >&2; exit 1;; esac\n'
    )
    with pytest.raises(InterpreterError) as raised:
        await Interpreters(settings).build(["x"])
    assert raised.value.code == code


async def test_a_build_that_needs_only_its_own_files_is_installed(
    settings: Settings, uv: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uv(
        VENV + 'case "$*" in *--no-build*) echo "x==1 has no usable wheels" >&2; exit 1;; esac\n'
        'if [ "$1" = pip ]; then env > "${PWD%/building}/venv/seen"; fi\n'
    )
    monkeypatch.setenv("UV_INDEX", "own=http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_FIND_LINKS", f"{tmp_path} file://{tmp_path} http://h.example:port/x")
    monkeypatch.setenv("UV_EXTRA_INDEX_URL", "https://me:secret@h.example/simple")
    built = await Interpreters(settings).build(["x"])
    seen = (built.python.parents[1] / "seen").read_text(encoding="utf-8")
    assert "UV_INDEX=own=http://127.0.0.1:9/simple" in seen
    assert "secret" not in seen
    assert not (built.python.parents[2] / "building").exists()


@pytest.mark.parametrize("more", [0, 9])
async def test_a_python_on_the_search_path_that_does_not_start_is_left_out(
    settings: Settings, uv: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: int
) -> None:
    version = tmp_path / "pyenv" / "versions" / "3.12.1" / "bin"
    version.mkdir(parents=True)
    shims = [tmp_path / "pyenv" / "shims", *(tmp_path / f"broken{number}" for number in range(more))]
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, shims), os.environ["PATH"]]))
    uv(
        VENV + f'case "$1 $PATH" in "venv {tmp_path}/"*) '
        'echo "error: Failed to inspect Python interpreter from search path at \\`${PATH%%:*}/python3.12\\`" >&2;'
        " exit 2;; esac\n"
        f'[ "$1" = pip ] || echo "$PATH" > {tmp_path}/path\n'
    )
    building = Interpreters(settings).build(["x"])
    if more:  # each folder is one more start of uv
        with pytest.raises(InterpreterError) as raised:
            await building
        assert raised.value.code == "python-missing"
        return
    await building
    path = (tmp_path / "path").read_text(encoding="utf-8").strip().split(os.pathsep)
    assert str(shims[0]) not in path
    assert path[-1] == str(version)


async def test_a_server_waits_while_another_builds_the_same_environment(
    settings: Settings, uv: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    uv(VENV)
    told: list[str] = []
    settings.interpreters.mkdir(parents=True)
    other = (settings.interpreters / f"{interpreter_name(['x'], None)}.lock").open("a", encoding="utf-8")
    fcntl.flock(other, fcntl.LOCK_EX)

    async def say(message: str) -> None:
        told.append(message)
        other.close()

    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.05)
    with pytest.raises(InterpreterError, match="for too long"):
        await Interpreters(settings).build(["x"])
    monkeypatch.setattr(module, "_LOCK_SECONDS", 60.0)
    await Interpreters(settings).build(["x"], progress=say)
    assert [message.split()[0] for message in told] == ["waiting", "building"]


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


async def test_without_the_extra_the_packages_are_those_of_the_toolchain(
    settings: Settings, uv: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(importlib.metadata, "version", missing)
    toolchain = Toolchain(settings)
    assert toolchain.python_for_datasets() is None
    assert await toolchain.versions() == {"verifiers": None, "datasets": None, "prime": None}
    metadata = "lib/python3.11/site-packages/prime-0.18.0.dist-info"
    uv(
        VENV + f'[ "$1" = venv ] && mkdir -p "$last/{metadata}" && '
        f"printf 'Name: prime\\nVersion: 0.18.0\\n' > \"$last/{metadata}/METADATA\"\nexit 0\n"
    )
    built = await toolchain.install()
    assert toolchain.python_for_datasets() == built.python
    assert (await toolchain.versions())["prime"] == "0.18.0"
    (built.python.parent / "prime").write_text("", encoding="utf-8")
    assert built.python.parent / "prime" in toolchain.programs("prime")


async def test_uv_is_the_one_that_is_installed_and_then_the_one_on_the_search_path(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert module.uv_program().name == "uv"
    (tmp_path / "uv").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Toolchain(settings).programs("uv")[-1] == tmp_path / "uv"

    def missing() -> str:
        raise FileNotFoundError("uv")

    monkeypatch.setattr("uv.find_uv_bin", missing)
    with pytest.raises(InterpreterError, match="uv program is missing"):
        module.uv_program()
    assert Toolchain(settings).program("uv") is not None
