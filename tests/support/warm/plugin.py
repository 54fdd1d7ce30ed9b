"""Runs `prime`, `vf-eval` and the workers' zygotes warm: forked from processes that imported them once.

The session gets an environment of its own: the packages of the real one, its programs, and one `.pth` file more
(hook.py). Tests and what they start run in it; nothing of the product knows. With `--cold`, and in tests
marked `cold`, every program is started anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab import interpreter
from prime_lab_mcp.lab.evals.runner.command import OLDER_PROGRAM
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.prime.program import SEVERAL_COMMANDS
from prime_lab_mcp.lab.worker.zygote import STARTED_AS
from tests.support.interpreters import SHARED

_HERE = Path(__file__).parent
PLACE = pytest.StashKey[Path]()
_STARTER = pytest.StashKey["subprocess.Popen[bytes]"]()
_TESTS = _HERE.parents[1]
CARRIED = (
    "attacks", "environments", "external", "flaws", "lab/authoring", "lab/configs/test_grid.py", "lab/datasets",
    "lab/environment", "lab/evals", "lab/prime/test_client.py", "lab/rewards", "lab/training",
    "lab/worker/test_adapter_v0.py", "lab/worker/test_adapter_v1.py", "lab/worker/test_side_actions.py",
    "lab/worker/test_description.py", "lab/worker/test_scripted_rollouts.py", "lab/worker/test_side_effects.py",
    "rehearsal", "resources", "server", "templates", "tools",
)  # fmt: skip
"""Directories and modules of tests whose programs are warm."""
_ALWAYS = "support/test_warm.py"
"""Compares warm and cold programs, so it has both with `--cold` too."""
_INPUT = "warm_place"
_READ = interpreter.read_interpreter
SEVERAL = SEVERAL_COMMANDS.read_text(encoding="utf-8").partition("\n")[0]
"""How the program begins that the server gives to a Python as text, to ask prime several things at once."""
REAL = (sys.executable, sys.prefix, sys.exec_prefix)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cold", action="store_true", help="start every program anew, as its user does")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cold: about processes; programs are started anew")
    if sys.platform != "linux" or sys.prefix == sys.base_prefix:
        return
    # A program that inherits this variable is started anew, because a forked process has its streams already.
    os.environ.pop("PYTHONUNBUFFERED", None)
    given = getattr(config, "workerinput", {}).get(_INPUT)
    if given is None:
        place, lock = claim()
        build(place)
        config.stash[_STARTER] = subprocess.Popen(
            [str(place / "bin" / "python"), str(_HERE / "server.py"), "start", str(place)],
            stdin=subprocess.PIPE, pass_fds=(lock,),
        )  # fmt: skip
    config.stash[PLACE] = Path(given) if given else place
    (config.stash[PLACE] / "accounts" / str(os.getpid())).touch()


def served_cpu(config: pytest.Config) -> float:
    """CPU seconds of the warm programs that this worker of xdist started and that have ended.

    0 without workers: the programs are descendants of the test process then.
    """
    place = config.stash.get(PLACE, None)
    if place is None or not hasattr(config, "workerinput"):
        return 0.0
    return sum(map(float, (place / "accounts" / str(os.getpid())).read_text(encoding="ascii").split()))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: pytest.Item) -> None:
    """Workers of xdist share what the first process made."""
    place = node.config.stash.get(PLACE, None)
    if place is not None:
        node.workerinput[_INPUT] = str(place)  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    use(None)
    starter = config.stash.get(_STARTER, None)
    if starter is not None:
        assert starter.stdin is not None
        starter.stdin.close()
        starter.wait()


@pytest.fixture(autouse=True, scope="module")
def _warm_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Warm programs for the modules of the directories that they carry."""
    place = request.config.stash.get(PLACE, None)
    names = (_ALWAYS,) if request.config.getoption("cold") else (_ALWAYS, *CARRIED)
    carried = any(request.path.is_relative_to(_TESTS / name) for name in names)
    if place is None or not carried or request.node.get_closest_marker("cold") is not None:
        yield
        return
    use(place)
    yield
    use(None)


@pytest.fixture(autouse=True)
def _cold_test(request: pytest.FixtureRequest, _warm_module: None) -> Iterator[None]:
    before = sys.executable
    if request.node.get_closest_marker("cold") is not None:
        use(None)
    yield
    use(request.config.stash[PLACE] if before != REAL[0] else None)


def use(place: Path | None) -> None:
    """Make this process one of the environment at `place`; None: of the real one."""
    python, prefix, exec_prefix = REAL if place is None else (str(place / "bin" / "python"), str(place), str(place))
    sys.executable, sys.prefix, sys.exec_prefix = python, prefix, exec_prefix
    interpreter.read_interpreter = _READ if place is None else functools.partial(_adopted, place)
    sysconfig.get_config_vars().update(base=prefix, platbase=exec_prefix)


def _adopted(place: Path, folder: Path) -> Interpreter | None:
    """Read a built interpreter; where it is one that tests share, its zygotes and its vf-eval are warm from now on.

    Its name depends on the Python that built it, so that it belongs to sessions at this place alone.
    """
    built = _READ(folder)
    venv = folder.resolve() / "venv"
    mark = place / "older" / folder.name
    if built is None or mark.is_symlink() or not venv.is_relative_to(SHARED):
        return built
    for packages in venv.glob("lib/python*/site-packages"):
        if packages.parent.name == f"python{sys.version_info.major}.{sys.version_info.minor}":
            write_hook(place, packages)
            with contextlib.suppress(FileExistsError):
                mark.symlink_to(venv)
    return built


def write_hook(place: Path, packages: Path) -> None:
    known = ", ".join(map(repr, (str(place), STARTED_AS, OLDER_PROGRAM.name, SEVERAL)))
    for name, content in {
        "_warm_hook.py": (_HERE / "hook.py").read_text(encoding="utf-8"),
        "zz_warm.pth": f"import _warm_hook; _warm_hook.main({known})\n",
    }.items():
        partial = packages / f".{name}.{os.getpid()}"
        partial.write_text(content, encoding="utf-8")
        partial.replace(packages / name)  # others may be starting


def claim() -> tuple[Path, int]:
    """An empty folder that no other session uses, and the lock on that folder.

    Sessions of one environment that follow each other get the same folder: interpreters that the tests build and share
    are named after the path of the Python that builds them.
    """
    digest = hashlib.sha256(REAL[1].encode()).hexdigest()[:8]
    for number in itertools.count():
        place = Path(tempfile.gettempdir(), f"warm-{os.getuid()}-{digest}-{number}")
        lock = os.open(f"{place}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        shutil.rmtree(place, ignore_errors=True)  # of a session that was killed
        place.mkdir(mode=0o700)
        return place, lock
    raise AssertionError("unreachable")


def build(place: Path) -> None:
    """The environment: everything of the real one, and the hook."""
    real = Path(REAL[1])
    purelib = Path(sysconfig.get_path("purelib"))
    packages = place / purelib.relative_to(real)
    packages.mkdir(parents=True)
    # Packages are found where they are, so that their paths are the same in the tests' own process.
    (packages / "packages.pth").write_text(f"import site; site.addsitedir({str(purelib)!r})\n", encoding="utf-8")
    write_hook(place, packages)
    (place / "older").mkdir()
    (place / "accounts").mkdir()
    for entry in purelib.glob("*.dist-info"):  # who asks what is installed looks here alone
        (packages / entry.name).symlink_to(entry)
    shutil.copy(real / "pyvenv.cfg", place / "pyvenv.cfg")
    if (real / "lib64").is_symlink():
        (place / "lib64").symlink_to("lib")
    (place / "bin").mkdir()
    for entry in (real / "bin").iterdir():
        _program(entry, place / "bin" / entry.name, str(real), str(place))


def _program(real: Path, copy: Path, old: str, new: str) -> None:
    if real.is_symlink() and real.name.startswith("python"):
        copy.symlink_to(os.readlink(real))
        return
    with real.open("rb") as source:
        script = source.read(2) == b"#!"
    if not script:
        copy.symlink_to(real)
        return
    first, rest = real.read_text(encoding="utf-8").split("\n", 1)
    copy.write_text(first.replace(old, new) + "\n" + rest, encoding="utf-8")
    copy.chmod(0o755)
