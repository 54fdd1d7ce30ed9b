"""Packages that an environment requires: code that runs while they are installed, and files that they plant.

An environment names its requirements, so whoever wrote it chooses packages. A package without a wheel runs its build
backend; a wheel can hold a `.pth` file, which Python runs at its start, and files that overwrite the interpreter's own.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.environment import wheel as wheels
from prime_lab_mcp.lab.interpreter import Interpreter, Interpreters
from prime_lab_mcp.lab.sandbox import kernel_support
from prime_lab_mcp.lab.sandbox.kernel_support import linux_support, present_support
from prime_lab_mcp.lab.sandbox.policy import python_paths
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.worker.pool import Workers
from tests.attacks.hostile import write_hostile

pytestmark = pytest.mark.anyio
needs_files = pytest.mark.skipif(present_support().files != "confined", reason="this kernel has no Landlock")

_TRIES = """
import json, os, signal, subprocess
def outcomes(attempts):
    found = {}
    for name, code in attempts.items():
        try:
            exec(code)
            found[name] = "done"
        except BaseException as error:
            found[name] = type(error).__name__
    return found
"""

_BACKEND = (
    _TRIES
    + """
import zipfile
FOUND = outcomes(json.loads(@ATTEMPTS@))
@MORE@

def build_wheel(folder, config_settings=None, metadata_directory=None):
    files = {
        "sdist_only/__init__.py": f"OUTCOMES = {FOUND!r}",
        "sdist_only-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: sdist-only\\nVersion: 1.0\\n",
        "sdist_only-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files["sdist_only-1.0.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in files)
    with zipfile.ZipFile(os.path.join(folder, "sdist_only-1.0-py3-none-any.whl"), "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return "sdist_only-1.0-py3-none-any.whl"
"""
)


def _sdist(folder: Path, attempts: dict[str, str], more: str = "") -> None:
    """A package without a wheel, whose build backend makes the attempts and puts the outcomes into the package."""
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "sdist-only"\nversion = "1.0"\n',
        "PKG-INFO": "Metadata-Version: 2.2\nName: sdist-only\nVersion: 1.0\n",
        "backend.py": _BACKEND.replace("@ATTEMPTS@", repr(json.dumps(attempts))).replace("@MORE@", more),
    }
    with tarfile.open(folder / "sdist_only-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"sdist_only-1.0/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


def _wheel(folder: Path, name: str, files: dict[str, str]) -> None:
    info = f"{name}-1.0.dist-info"
    whole = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in whole.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in (whole | {f"{info}/RECORD": record + f"{info}/RECORD,,\n"}).items():
            archive.writestr(path, text)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home with a key; packages come from a folder, and no index is asked."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_ed25519").write_text("secret", encoding="utf-8")
    (tmp_path / "state").mkdir()
    Ledger(tmp_path / "state" / "ledger.sqlite3").close()
    (tmp_path / "packages").mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "packages"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_INDEX_EXAMPLE_PASSWORD", "hunter2")
    return folder


def _interpreters(tmp_path: Path) -> Interpreters:
    return Interpreters(Settings(workspace=tmp_path, state_dir=tmp_path / "state"))


def _attempts(tmp_path: Path, home: Path) -> dict[str, str]:
    return {
        "key": f"open({str(home / '.ssh/id_ed25519')!r}).read()",
        "ledger": f"open({str(tmp_path / 'state/ledger.sqlite3')!r}, 'ab').close()",
        "profile": f"open({str(home / '.profile')!r}, 'w').close()",
        "users cache of uv": f"open({str(tmp_path / 'uv/planted')!r}, 'w').close()",
        "record of the interpreter": "import glob; "
        f"open(glob.glob({str(tmp_path / 'state/interpreters')!r} + '/*/requirements.txt')[0], 'a').close()",
        "password": "assert os.environ['UV_INDEX_EXAMPLE_PASSWORD']",
        "server": f"os.kill({os.getpid()}, signal.SIGCONT)",
    }


def _outcomes(built: Interpreter) -> dict[str, str]:
    (module,) = (built.python.parent.parent / "lib").glob("python*/site-packages/sdist_only/__init__.py")
    return _reported(module.read_text(encoding="utf-8"))


def _reported(module: str) -> dict[str, str]:
    scope: dict[str, dict[str, str]] = {}
    exec(module, scope)
    return scope["OUTCOMES"]


async def _outcomes_of_wheel(tmp_path: Path, home: Path) -> dict[str, str]:
    """What the build of an environment's own wheel could do."""
    scratch = tmp_path / "state" / "wheels" / ".building-x"
    scratch.mkdir(parents=True)
    (tmp_path / "uv").mkdir()
    attempts = _attempts(tmp_path, home)
    attempts |= {
        "record of the interpreter": f"open({str(scratch.parent / 'planted')!r}, 'w').close()",
        "trace": "import ctypes; "
        f"assert ctypes.CDLL(None).ptrace(0x4206, {os.getpid()}, None, None) == 0  # PTRACE_SEIZE",
        "udp": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        attempts["network"] = f"import socket; socket.create_connection({server.getsockname()!r}, timeout=5)"
        return await _built(scratch, attempts)


async def _built(scratch: Path, attempts: dict[str, str]) -> dict[str, str]:
    _sdist(scratch, attempts)
    with tarfile.open(scratch / "sdist_only-1.0.tar.gz") as archive:
        archive.extractall(scratch)  # Python before 3.11.4 knows no filter, and the archive is our own
    failure = await wheels._uv_build(scratch / "sdist_only-1.0", scratch, Path(sys.executable))
    assert failure is None
    with zipfile.ZipFile(scratch / "dist" / "sdist_only-1.0-py3-none-any.whl") as wheel:
        return _reported(wheel.read("sdist_only/__init__.py").decode())


def _has_namespaces() -> bool:
    code = "import sys; from prime_lab_mcp.lab.sandbox.confine import leave_network; sys.exit(not leave_network())"
    return sys.platform == "linux" and subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_files
async def test_the_build_of_an_environments_wheel_reaches_nothing_outside(tmp_path: Path, home: Path) -> None:
    found = await _outcomes_of_wheel(tmp_path, home)
    open_ports = set() if await anyio.to_thread.run_sync(_has_namespaces) else {"network"}
    assert {name for name, outcome in found.items() if outcome == "done"} == open_ports


async def test_without_confinement_the_build_of_a_wheel_reaches_everything(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the attempts are real ones. Credentials of an index are withheld all the same."""
    nothing = linux_support(0, False)
    monkeypatch.setattr(kernel_support, "_read_kernel_support", lambda: nothing)
    found = await _outcomes_of_wheel(tmp_path, home)
    failed = {name for name, outcome in found.items() if outcome != "done"}
    assert {"password"} <= failed <= {"password", "trace"}, found  # ptrace_scope of the system may refuse the trace


@needs_files
async def test_a_package_without_a_wheel_is_built_confined(tmp_path: Path, home: Path) -> None:
    allowed = {"own folder": "open('own', 'w').close()", "program": "subprocess.check_call(['/bin/sh', '-c', ':'])"}
    _sdist(tmp_path / "packages", _attempts(tmp_path, home) | allowed)
    found = _outcomes(await _interpreters(tmp_path).build(["sdist-only"]))
    assert {name for name, outcome in found.items() if outcome == "done"} == set(allowed), found


async def test_without_confinement_the_build_of_a_package_reaches_everything(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the attempts are real ones. Credentials of an index are withheld all the same."""
    nothing = linux_support(0, False)
    monkeypatch.setattr(kernel_support, "_read_kernel_support", lambda: nothing)
    _sdist(tmp_path / "packages", _attempts(tmp_path, home))
    found = _outcomes(await _interpreters(tmp_path).build(["sdist-only"]))
    assert {name for name, outcome in found.items() if outcome != "done"} == {"password"}, found


@needs_files
async def test_a_build_that_needs_what_is_refused_is_confined_and_no_fault_of_the_package(
    tmp_path: Path, home: Path
) -> None:
    _sdist(tmp_path / "packages", {}, f"open({str(home / '.ssh/id_ed25519')!r})")
    with pytest.raises(LabError) as raised:
        await _interpreters(tmp_path).build(["sdist-only"])
    assert raised.value.code == "confined"
    assert not [path for path in (tmp_path / "state" / "interpreters").iterdir() if path.is_dir()]


def _planting(tmp_path: Path, attempts: dict[str, str]) -> None:
    """A wheel whose `.pth` file runs the attempts whenever its interpreter starts, and prints the outcomes."""
    _wheel(
        tmp_path / "packages",
        "planted",
        {
            "planted.pth": "import planted\n",
            "planted.py": _TRIES + f"import sys\nsys.stderr.write('@' + json.dumps(outcomes({attempts!r})) + '@\\n')\n",
        },
    )


@needs_files
async def test_what_a_wheel_plants_in_the_start_of_its_interpreter_runs_confined(tmp_path: Path, home: Path) -> None:
    attempts = {name: code for name, code in _attempts(tmp_path, home).items() if name != "record of the interpreter"}
    _planting(tmp_path, attempts | {"scratch": "open('own', 'w').close()"})
    built = await _interpreters(tmp_path).build(["planted"])
    pool = Workers(Settings(workspace=tmp_path, state_dir=tmp_path / "state"))
    try:
        tree = write_hostile(tmp_path / "state" / "snapshots" / "env", {})
        async with pool.open(tree, "k", built, api="v1", module="hostile"):
            (zygote,) = pool._zygotes.values()
            await zygote.start()
            (log,) = (tmp_path / "state" / "scratch").glob("zygote-*/log")
            until = time.monotonic() + 20
            while log.read_text(encoding="utf-8").count("@") < 2 and time.monotonic() < until:
                await anyio.sleep(0.05)
            found = json.loads(log.read_text(encoding="utf-8").split("@")[1])
    finally:
        await pool.close()
    assert {name for name, outcome in found.items() if outcome == "done"} == {"scratch"}, found


@needs_files
async def test_what_a_wheel_plants_does_not_run_when_the_wheel_of_an_environment_is_built(
    tmp_path: Path, home: Path
) -> None:
    mark = tmp_path / "mark"
    _planting(tmp_path, {"mark": f"open({str(mark)!r}, 'a').close()"})
    built = await _interpreters(tmp_path).build(["planted"])
    mark.unlink(missing_ok=True)
    shutil.rmtree(tmp_path / "uv")  # remembers what uv learned of this Python before the wheel was in it
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "pyproject.toml").write_text("[build-system]\nrequires = ['planted']\n", encoding="utf-8")
    (tmp_path / "store").mkdir()
    await wheels._backend(tmp_path / "source", tmp_path / "store", built)
    assert not mark.exists()


def test_files_that_a_package_plants_open_no_folder_to_its_environment(tmp_path: Path, home: Path) -> None:
    venv = tmp_path / "state" / "interpreters" / "x" / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    before = python_paths(venv / "bin" / "python")
    assert any((path / "lib").is_dir() for path in before if path != venv)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "planted.pth").write_text(f"{home / '.ssh'}\n../../../../../../ledger\n", encoding="utf-8")
    assert python_paths(venv / "bin" / "python") == before
    (venv / "pyvenv.cfg").write_text(f"home = {home / '.ssh' / 'bin'}\n", encoding="utf-8")
    secret = home / ".ssh" / "a" / "b"
    secret.mkdir(parents=True)
    (secret / "python").touch()
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to(secret / "python")
    assert python_paths(venv / "bin" / "python") == (venv,)
