"""Builds a package's wheel from a snapshot and unpacks it, so that the environment loads as in an installation.

`prime env push` builds a wheel, and training installs it. If the build leaves out a file that the environment needs,
the environment works in its folder but fails in training; `wheel_contents` finds such files.

uv builds the wheel from a copy of the snapshot. The build is confined, has no network and no credentials, and uses a
Python with only the build requirements. It may run code of the package, so the server does not trust the scratch folder
of the build: it copies only the wheel out of that folder, and keeps its own files where the build cannot write.

The result of a build is stored as a plan, which says from which file of the snapshot each file of the wheel comes.
Later snapshots with the same plan need no build.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio

from prime_lab_mcp.lab.base import process, untrusted_files
from prime_lab_mcp.lab.base.errors import LabError, ProcessError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.wheel_archive import (
    MAX_WHEEL_BYTES,
    UnreadableWheel,
    installed_path,
    unpack_wheel,
    wheel_files,
    wheel_metadata,
)
from prime_lab_mcp.lab.interpreter import Interpreter, uv_program
from prime_lab_mcp.lab.sandbox.policy import Confinement, python_paths
from prime_lab_mcp.lab.state.snapshot import Snapshot

T = TypeVar("T")
BUILD_SECONDS = 120.0
MOST_WHEELS = 20
"""Most unpacked wheels, plans and build interpreters (each) that stay in the state directory."""
_PLAN_VERSION = 3
"""The version of stored plans; plans of other versions are not used. In version 1, builds could write plans, and
version 2 ignored the data files of a wheel."""
_WHEEL = re.compile(r"[A-Za-z0-9_.+!-]+\.whl")
_UNREACHABLE = re.compile(
    r"error sending request|Failed to fetch|dns error|timed out|connection (?:refused|reset)|network was disabled"
    r"|network connectivity is disabled|not found in the cache",
    re.I,
)
BUILD_SCRIPTS = frozenset(
    {"setup.py", "setup.cfg", "MANIFEST.in", "hatch_build.py", "hatch.toml", "build.py", "meson.build"}
)
_REFUSED = re.compile(
    r"Permission denied|PermissionError|Operation not permitted|os error 13|could not be confined", re.I
)


class WheelFailed(LabError):
    """The package's wheel does not build. This is a flaw of the package.

    `output` is the end of the build's output. It may contain text of the package, so the message quotes it.
    """

    def __init__(self, output: str) -> None:
        super().__init__(
            f"the wheel does not build: {quote(output, 600)}", fix="Mend [build-system] in pyproject.toml."
        )
        self.output = output


class WheelUnchecked(LabError):
    """The wheel could not be built for a reason unrelated to the package."""


_FILES = "files"
"""The subfolder of a plan's folder for generated files. A generated file called plan.json cannot replace the plan."""
_SCRATCH = "build"
"""The subfolder of a build's folder that the build may write. It may not write the rest of that folder."""


@dataclass(frozen=True, slots=True)
class UnpackedWheel:
    """A wheel that is unpacked in the folder `tree`. `files` maps each path, except metadata, to the file's sha256."""

    tree: Path
    files: Mapping[str, str]


async def build_wheel(settings: Settings, snapshot: Snapshot, interpreter: Interpreter) -> UnpackedWheel:
    """Return the unpacked wheel of a snapshot. Raises WheelFailed or WheelUnchecked.

    pyproject.toml, the file names and the build scripts determine which files a wheel contains. If an edit changes none
    of them, the stored plan is used and nothing is built. If a build generates files, every edit needs a new build.
    """
    store = settings.state_dir / "wheels"
    await anyio.to_thread.run_sync(lambda: store.mkdir(parents=True, exist_ok=True))
    key = _plan_key(snapshot, interpreter)
    lock = _BUILDING.setdefault(str(store / key), anyio.Lock())
    async with lock:
        for last in (False, True):
            plan = await anyio.to_thread.run_sync(_find_plan, store, key, snapshot)
            if plan is None:
                plan = await _build_plan(store, key, snapshot, interpreter)
            try:
                return await anyio.to_thread.run_sync(_assemble, store, plan, snapshot)
            except FileNotFoundError:
                # Another server has removed the plan from the store, so the wheel is built again.
                if last:
                    raise
        raise AssertionError("unreachable")


async def build_wheel_file(settings: Settings, snapshot: Snapshot, interpreter: Interpreter, target: Path) -> Path:
    """Build the wheel that is pushed, and return its path in the folder `target`.

    Raises WheelFailed if its files or requirements differ from those of the wheel that `check_environment` loaded, or
    if the build fails. Raises WheelUnchecked.
    """
    checked = await build_wheel(settings, snapshot, interpreter)
    place = Path(tempfile.mkdtemp(dir=settings.state_dir / "wheels", prefix=".building-"))
    try:
        wheel = await _build(place, snapshot, interpreter)
        built = await anyio.to_thread.run_sync(_read_wheel, wheel_files, wheel)
        if built != dict(checked.files):
            paths = sorted(p for p in built.keys() | checked.files.keys() if built.get(p) != checked.files.get(p))
            raise WheelFailed(f"two builds of the same files differ: {', '.join(paths[:3])}")
        sent = await anyio.to_thread.run_sync(_read_wheel, wheel_metadata, wheel)
        if sent != await anyio.to_thread.run_sync(_read_wheel, wheel_metadata, checked.tree):
            raise WheelFailed("two builds of the same files differ in their requirements or entry points")
        target.mkdir(parents=True, exist_ok=True)
        return Path(await anyio.to_thread.run_sync(shutil.move, wheel, target / wheel.name))
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(place, ignore_errors=True))


async def _build(place: Path, snapshot: Snapshot, interpreter: Interpreter) -> Path:
    """Build the wheel in a scratch folder inside `place`, and return the wheel's path directly in `place`."""
    scratch = place / _SCRATCH
    source = scratch / "source"
    await anyio.to_thread.run_sync(_copy_source, snapshot, source)
    await _run_build(source, scratch, interpreter)
    return await anyio.to_thread.run_sync(_take_wheel, scratch, place)


def _take_wheel(scratch: Path, place: Path) -> Path:
    """Copy the wheel from the build's scratch folder to `place`. Raises WheelFailed if there is no proper wheel."""
    try:
        names = [name for name in untrusted_files.list_below(scratch, "dist") if _WHEEL.fullmatch(name)]
        if not names:
            raise WheelFailed("the build ended well and left no wheel")
        untrusted_files.copy_below(scratch, f"dist/{names[0]}", place / names[0], MAX_WHEEL_BYTES)
    except untrusted_files.PlantedPath as error:
        raise WheelFailed(error.message) from error
    return place / names[0]


def _read_wheel(read: Callable[[Path], T], wheel: Path) -> T:
    """Return what `read` finds in a wheel. Raises WheelFailed if the wheel cannot be read."""
    try:
        return read(wheel)
    except UnreadableWheel as error:
        raise WheelFailed(error.message) from error


_BUILDING: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
"""A lock for each plan, so that concurrent calls build a wheel once. Several servers can share the folder without
locks, because a plan or tree appears by a single rename and never changes."""


async def _build_plan(store: Path, key: str, snapshot: Snapshot, interpreter: Interpreter) -> Path:
    place = Path(tempfile.mkdtemp(dir=store, prefix=".building-"))
    try:
        wheel = await _build(place, snapshot, interpreter)
        return await anyio.to_thread.run_sync(_record_plan, wheel, store, key, snapshot)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(place, ignore_errors=True))


def files_left_out(settings: Settings, snapshot: Snapshot) -> frozenset[str]:
    """Return the files of a snapshot that are not part of an installation of its wheel.

    If the wheel of this snapshot is not in the store, these are pyproject.toml and README.md.
    """
    trees = sorted((settings.state_dir / "wheels").glob(f"tree-{snapshot.content[:32]}-*"), key=_used_at)
    if not trees:
        return frozenset({"pyproject.toml", "README.md"} & snapshot.files.keys())
    held = {path.relative_to(trees[-1]).as_posix() for path in trees[-1].rglob("*") if path.is_file()}
    return frozenset(path for path in snapshot.files if path.removeprefix("src/") not in held)


def _plan_key(snapshot: Snapshot, interpreter: Interpreter) -> str:
    decisive = [p for p in snapshot.files if p == "pyproject.toml" or PurePosixPath(p).name in BUILD_SCRIPTS]
    parts = [_PLAN_VERSION, interpreter.key, sorted(snapshot.files), [(p, snapshot.files[p]) for p in sorted(decisive)]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _find_plan(store: Path, key: str, snapshot: Snapshot) -> Path | None:
    """Return the folder of a stored plan that is valid for this snapshot; None if there is none."""
    for place in _plan_folders(store, key, snapshot):
        recorded = _read_plan(place)
        if recorded is not None and recorded.get("content") in (None, snapshot.content):
            with suppress(OSError):
                os.utime(place)
            return place
    return None


def _plan_folders(store: Path, key: str, snapshot: Snapshot) -> tuple[Path, Path]:
    """Return the folders of two possible plans: one for all snapshots with this key, one for this snapshot only."""
    return store / f"plan-{key}", store / f"plan-{key}-{snapshot.content[:16]}"


def _read_plan(place: Path) -> dict[str, Any] | None:
    try:
        recorded = json.loads((place / "plan.json").read_text(encoding="utf-8"))
        return recorded if isinstance(recorded, dict) else None
    except (OSError, ValueError):
        return None


def _record_plan(wheel: Path, store: Path, key: str, snapshot: Snapshot) -> Path:
    """Store the plan of a built wheel: which file of the snapshot each file of the wheel equals, and generated files.

    Returns the plan's folder. A readable plan that already exists is used and never replaced.
    """
    tree, generated = wheel.with_name("tree"), wheel.with_name("generated")
    try:
        unpack_wheel(wheel, tree)
    except UnreadableWheel as error:
        raise WheelFailed(error.message) from error
    (generated / _FILES).mkdir(parents=True)
    by_digest = {digest: path for path, digest in snapshot.files.items()}
    files: dict[str, str] = {}
    own: dict[str, str] = {}
    for path in sorted(p for p in tree.rglob("*") if p.is_file()):
        name, digest = path.relative_to(tree).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()
        same = [p for p in (name, f"src/{name}") if snapshot.files.get(p) == digest]
        origin = same[0] if same else by_digest.get(digest)
        if origin is not None:
            files[name] = origin
            continue
        own[name] = digest
        (generated / _FILES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, generated / _FILES / name)
    repeated = any(installed_path(name) is not None for name in own) or bool(snapshot.manifest.project.get("dynamic"))
    plan = {"files": files, "own": own, "content": snapshot.content if repeated else None}
    (generated / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    place = _plan_folders(store, key, snapshot)[1 if repeated else 0]
    try:
        os.rename(generated, place)
    except OSError:
        if _read_plan(place) is None:  # The existing plan is unreadable. Otherwise another server has stored it first.
            shutil.rmtree(place, ignore_errors=True)
            os.rename(generated, place)
    return place


def _assemble(store: Path, place: Path, snapshot: Snapshot) -> UnpackedWheel:
    """Return the unpacked wheel of a snapshot, made of links to the snapshot's files and to generated files.

    Raises FileNotFoundError if the plan in `place` or its files have been removed.
    """
    plan = json.loads((place / "plan.json").read_text(encoding="utf-8"))
    tree = store / f"tree-{snapshot.content[:32]}-{place.name[5:13]}"
    listed = {n: snapshot.files[origin] for n, origin in plan["files"].items()}
    listed |= {n: d for n, d in plan["own"].items() if installed_path(n) is not None}
    if not tree.is_dir():
        building = Path(tempfile.mkdtemp(dir=store, prefix=".tree-"))
        try:
            for name in (*plan["files"], *plan["own"]):
                target = building / name
                target.parent.mkdir(parents=True, exist_ok=True)
                origin = plan["files"].get(name)
                _link(snapshot.tree / origin if origin is not None else place / _FILES / name, target)
            os.rename(building, tree)
        except OSError:
            shutil.rmtree(building, ignore_errors=True)
            if not tree.is_dir():
                raise
        _remove_old(store)
    os.utime(tree)
    return UnpackedWheel(tree, listed)


def _link(origin: Path, target: Path) -> None:
    # Hard links, because a module that resolves its own path would leave the wheel through a symbolic link.
    try:
        os.link(origin, target)
    except OSError:
        shutil.copyfile(origin, target)


def _copy_source(snapshot: Snapshot, target: Path) -> None:
    # The build needs a copy: some backends write into the folder that they build, and the snapshot is read-only.
    for path in snapshot.files:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(snapshot.tree / path, place)
    readme = snapshot.manifest.stated_readme
    left_out = {skipped.path for skipped in snapshot.left_out}
    if readme is not None and readme in left_out and "/" not in readme:
        # pyproject.toml names a README that the snapshot leaves out. `prime env push` builds in the user's folder,
        # which has that README. Its text is only metadata of the wheel.
        (target / readme).write_text(f"# {snapshot.manifest.name or snapshot.name}\n", encoding="utf-8")


async def _run_build(source: Path, scratch: Path, interpreter: Interpreter) -> None:
    """Install the build requirements, then build the wheel, confined to the scratch folder and without network.

    Raises WheelFailed or WheelUnchecked.
    """
    backend = await _backend(source, scratch.parents[1], interpreter)
    failure = await _uv_build(source, scratch, backend)
    if failure is None:
        return
    if _REFUSED.search(failure):
        raise WheelUnchecked(
            f"its build needs something that confinement refuses: {quote(failure, 300)}",
            fix="Let the build read only the package and write only to the folder that it builds from.",
            code="confined",
        )
    raise WheelFailed(failure)


async def _uv_build(source: Path, scratch: Path, backend: Path) -> str | None:
    """Run `uv build` with the Python `backend`. Returns None on success, otherwise the end of the output."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    uv = uv_program()
    argv = [str(uv), "build", "--offline", "--no-config", "--no-build-isolation", "--wheel", "--no-progress"]
    argv += ["--out-dir", str(scratch / "dist"), "--python", str(backend), str(source)]
    read = (uv, uv.resolve(), *python_paths(backend))
    argv = Confinement(read, (scratch,), ports=(), hidden=(scratch.parents[2],)).command(argv)
    try:
        completed = await process.run(argv, cwd=scratch, env=_variables(home), timeout=BUILD_SECONDS)
    except ProcessError as error:
        if error.code == "process-timeout":
            return f"it did not end within {BUILD_SECONDS:g} seconds"
        raise
    if completed.returncode == 0:
        return None
    return _error_excerpt(completed.stderr or completed.stdout, source)


def _error_excerpt(output: str, source: Path) -> str:
    lines = [line.strip() for line in output.replace(f"{source}/", "").splitlines() if line.strip()]
    errors = [n for n, line in enumerate(lines) if re.search(r"^\S*(?:Error|error|×|Caused)", line)]
    return " ".join(lines[max(0, errors[-1] - 3) :] if errors else lines)[-1500:]


async def _backend(source: Path, store: Path, interpreter: Interpreter) -> Path:
    """Return a Python with the package's build requirements. It is made on first use and then reused.

    Build requirements are installed from wheels only, so installing them runs none of their code. Raises WheelFailed or
    WheelUnchecked.
    """
    requires = await anyio.to_thread.run_sync(_build_requirements, source)
    digest = hashlib.sha256(json.dumps([interpreter.key, str(interpreter.python), requires]).encode()).hexdigest()[:20]
    folder = store / f"backend-{digest}"
    python = folder / "bin" / "python"
    if await anyio.to_thread.run_sync(python.exists):
        await anyio.to_thread.run_sync(os.utime, folder)
        return python
    building = Path(tempfile.mkdtemp(dir=store, prefix=".backend-"))
    try:
        venv = ["venv", "--quiet", "--no-project", "--relocatable", "--allow-existing"]
        # uv starts this Python. The base interpreter contains no packages that could run code at its start.
        base = str(interpreter.base or interpreter.python)
        failure = await _uv([*venv, "--offline", "--python", base, str(building)], building)
        install = ["pip", "install", "--quiet", "--no-build", "--python", str(building / "bin" / "python")]
        install += ["--", *requires]
        if failure is None and await _uv(["--offline", *install], building) is not None:
            failure = await _uv(install, building)  # Downloads the requirements that uv's cache does not have.
        if failure is not None and _UNREACHABLE.search(failure):
            raise WheelUnchecked(
                f"what builds it could not be fetched: {quote(failure, 300)}",
                fix=Fix(
                    "Check the network or set UV_INDEX_URL for the server, then call ",
                    NamedCall("check_environment"),
                    " again.",
                ),
            )
        if failure is not None:
            raise WheelFailed(failure)
        with suppress(OSError):  # Another server may have made the same folder first.
            os.rename(building, folder)
    finally:
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(building, ignore_errors=True))
    return python


def _build_requirements(source: Path) -> list[str]:
    """Return the requirements in `[build-system]`. Without that table, uv assumes setuptools."""
    import tomllib

    table = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    system = table.get("build-system")
    listed = system.get("requires") if isinstance(system, dict) else None
    requires = [r for r in listed if isinstance(r, str)] if isinstance(listed, list) else []
    requires = requires or ["setuptools>=40.8.0"]
    # A backend may require more packages when a build begins: setuptools before 70.1 requires wheel.
    return [*requires, "wheel"] if any(r.startswith("setuptools") for r in requires) else requires


async def _uv(arguments: Sequence[str], folder: Path) -> str | None:
    """Run uv with the user's cache and package index. Returns None on success, otherwise the end of the output."""
    try:
        completed = await process.run(
            [str(uv_program()), *arguments], cwd=folder, env=process.installer_environment(), timeout=BUILD_SECONDS
        )
    except ProcessError as error:
        return f"{error.message} (timed out)"
    return None if completed.returncode == 0 else _error_excerpt(completed.stderr, folder)


def _variables(home: Path) -> dict[str, str]:
    """Return the environment variables of a build. uv gets its own cache, because a build could change the user's."""
    return process.clean_environment(
        {"UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": str(home / "uv"), "TMPDIR": str(home)}, home=home
    )


def _remove_old(store: Path) -> None:
    for kind in ("plan-*", "tree-*", "backend-*"):
        for old in sorted(store.glob(kind), key=_used_at, reverse=True)[MOST_WHEELS:]:
            shutil.rmtree(old, ignore_errors=True)


def _used_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # Another server may have removed the folder.
        return 0.0
