"""Builds a package's wheel from the snapshot and unpacks it, so that the environment loads as others install it.

`prime env push` builds the wheel and training installs it, so a file that the build leaves out works in the folder and
fails in training; `wheel_contents` finds such files. uv builds a scratch copy, confined, without network and
credentials, with a Python that has only the build requirements.

A build may run code of the package, which then writes whatever it likes into the scratch folder. The server takes one
file out of that folder, the wheel, and writes all of its own beside the folder, where the build cannot write.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from weakref import WeakValueDictionary

import anyio

from prime_lab_mcp.lab.base import process, untrusted_files
from prime_lab_mcp.lab.base.errors import LabError, ProcessError
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.wheel_archive import (
    MAX_WHEEL_BYTES,
    UnreadableWheel,
    installed_path,
    unpack_wheel,
    wheel_files,
)
from prime_lab_mcp.lab.interpreter import Interpreter, uv_program
from prime_lab_mcp.lab.sandbox.policy import Confinement, python_paths
from prime_lab_mcp.lab.state.snapshot import Snapshot

BUILD_SECONDS = 120.0
KEPT_WHEELS = 20
"""Unpacked wheels to keep in the state directory."""
_PLANS = 3
"""Version of the recorded plans. Builds could write those of version 1; version 2 ignored the data files of a wheel."""
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
    """The package does not build, which is a flaw of the package. `output` is the end of the build's output, foreign
    text.
    """

    def __init__(self, output: str) -> None:
        super().__init__(
            f"the wheel does not build: {quote(output, 600)}", fix="Mend [build-system] in pyproject.toml."
        )
        self.output = output


class WheelUnchecked(LabError):
    """The wheel could not be built for a reason unrelated to the package."""


_FILES = "files"
"""The folder of generated files beside a plan, so that none of them is taken for the plan."""
_SCRATCH = "build"
"""The folder of a build that the build may write, in a folder that it may not."""


@dataclass(frozen=True, slots=True)
class UnpackedWheel:
    """An unpacked wheel. `files` maps its paths, without the metadata, to the sha256 of the bytes."""

    tree: Path
    files: Mapping[str, str]


async def build_wheel(settings: Settings, snapshot: Snapshot, interpreter: Interpreter) -> UnpackedWheel:
    """Return the unpacked wheel of a snapshot. Raises WheelFailed, WheelUnchecked.

    pyproject.toml, the file names and the build scripts decide which files a wheel contains. While these stay the same,
    an edit needs no new build. A build that generates files is repeated for every edit.
    """
    store = settings.state_dir / "wheels"
    await anyio.to_thread.run_sync(lambda: store.mkdir(parents=True, exist_ok=True))
    key = _key(snapshot, interpreter)
    lock = _BUILDING.setdefault(str(store / key), anyio.Lock())
    async with lock:
        for last in (False, True):
            plan = await anyio.to_thread.run_sync(_find_plan, store, key, snapshot)
            if plan is None:
                plan = await _build_plan(store, key, snapshot, interpreter)
            try:
                return await anyio.to_thread.run_sync(_assemble, store, plan, snapshot)
            except FileNotFoundError:
                # Another server cleaned the store. The plan is then built anew.
                if last:
                    raise
        raise AssertionError("unreachable")


async def build_wheel_file(settings: Settings, snapshot: Snapshot, interpreter: Interpreter, target: Path) -> Path:
    """Build the wheel of exactly these files into the folder `target`, for a push.

    Its package files must be those of the wheel that `check_environment` loaded. Raises WheelFailed, WheelUnchecked.
    """
    checked = await build_wheel(settings, snapshot, interpreter)
    place = Path(tempfile.mkdtemp(dir=settings.state_dir / "wheels", prefix=".building-"))
    try:
        wheel = await _build(place, snapshot, interpreter)
        built = await anyio.to_thread.run_sync(_built_files, wheel)
        if built != dict(checked.files):
            paths = sorted(p for p in built.keys() | checked.files.keys() if built.get(p) != checked.files.get(p))
            raise WheelFailed(f"two builds of the same files differ: {', '.join(paths[:3])}")
        target.mkdir(parents=True, exist_ok=True)
        return Path(await anyio.to_thread.run_sync(shutil.move, wheel, target / wheel.name))
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(place, ignore_errors=True))


async def _build(place: Path, snapshot: Snapshot, interpreter: Interpreter) -> Path:
    """Build the wheel in a scratch folder in `place`; return the wheel, taken out of that folder."""
    scratch = place / _SCRATCH
    source = scratch / "source"
    await anyio.to_thread.run_sync(_copy, snapshot, source)
    await _run_build(source, scratch, interpreter)
    return await anyio.to_thread.run_sync(_take_wheel, scratch, place)


def _take_wheel(scratch: Path, place: Path) -> Path:
    """Copy the wheel out of what the build may write. Raises WheelFailed."""
    try:
        names = [name for name in untrusted_files.list_below(scratch, "dist") if _WHEEL.fullmatch(name)]
        if not names:
            raise WheelFailed("the build ended well and left no wheel")
        untrusted_files.copy_below(scratch, f"dist/{names[0]}", place / names[0], MAX_WHEEL_BYTES)
    except untrusted_files.PlantedPath as error:
        raise WheelFailed(error.message) from error
    return place / names[0]


def _built_files(wheel: Path) -> dict[str, str]:
    """sha256 of each file that a built wheel installs. Raises WheelFailed."""
    try:
        return wheel_files(wheel)
    except UnreadableWheel as error:
        raise WheelFailed(error.message) from error


_BUILDING: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
"""One lock per plan: calls at the same time build a wheel once. Servers that share the folder are safe without it,
because plans and trees appear by one rename and never change."""


async def _build_plan(store: Path, key: str, snapshot: Snapshot, interpreter: Interpreter) -> Path:
    place = Path(tempfile.mkdtemp(dir=store, prefix=".building-"))
    try:
        wheel = await _build(place, snapshot, interpreter)
        return await anyio.to_thread.run_sync(_keep, wheel, store, key, snapshot)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(place, ignore_errors=True))


def files_left_out(settings: Settings, snapshot: Snapshot) -> frozenset[str]:
    """The files of a snapshot that an installation of its wheel lacks.

    Without a wheel of these files in the store, those at the top that no wheel takes by itself.
    """
    trees = sorted((settings.state_dir / "wheels").glob(f"tree-{snapshot.content[:32]}-*"), key=_used_at)
    if not trees:
        return frozenset({"pyproject.toml", "README.md"} & snapshot.files.keys())
    held = {path.relative_to(trees[-1]).as_posix() for path in trees[-1].rglob("*") if path.is_file()}
    return frozenset(path for path in snapshot.files if path.removeprefix("src/") not in held)


def _key(snapshot: Snapshot, interpreter: Interpreter) -> str:
    decisive = [p for p in snapshot.files if p == "pyproject.toml" or PurePosixPath(p).name in BUILD_SCRIPTS]
    parts = [_PLANS, interpreter.key, sorted(snapshot.files), [(p, snapshot.files[p]) for p in sorted(decisive)]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _find_plan(store: Path, key: str, snapshot: Snapshot) -> Path | None:
    """The folder of a recorded plan that holds for this snapshot."""
    for place in _places(store, key, snapshot):
        recorded = _read_plan(place)
        if recorded is not None and recorded.get("content") in (None, snapshot.content):
            with suppress(OSError):
                os.utime(place)
            return place
    return None


def _places(store: Path, key: str, snapshot: Snapshot) -> tuple[Path, Path]:
    """The path of a plan for every content with this key, and the path of a plan for this content alone."""
    return store / f"plan-{key}", store / f"plan-{key}-{snapshot.content[:16]}"


def _read_plan(place: Path) -> dict[str, Any] | None:
    try:
        recorded = json.loads((place / "plan.json").read_text(encoding="utf-8"))
        return recorded if isinstance(recorded, dict) else None
    except (OSError, ValueError):
        return None


def _keep(wheel: Path, store: Path, key: str, snapshot: Snapshot) -> Path:
    """Record which pushed file each file of the wheel is, and store the generated files beside the record.

    Returns the folder of the record. A folder that is there already is used and never replaced.
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
    place = _places(store, key, snapshot)[1 if repeated else 0]
    try:
        os.rename(generated, place)
    except OSError:
        if _read_plan(place) is None:  # an unreadable record, not the one that another server stored first
            shutil.rmtree(place, ignore_errors=True)
            os.rename(generated, place)
    return place


def _assemble(store: Path, place: Path, snapshot: Snapshot) -> UnpackedWheel:
    """Return the unpacked wheel of this content, assembled from links to the snapshot's files.

    Raises FileNotFoundError if the plan or its files are gone.
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
        _clean(store)
    os.utime(tree)
    return UnpackedWheel(tree, listed)


def _link(origin: Path, target: Path) -> None:
    # No symbolic links: a module that resolves its own path has to stay in the wheel.
    try:
        os.link(origin, target)
    except OSError:
        shutil.copyfile(origin, target)


def _copy(snapshot: Snapshot, target: Path) -> None:
    # A copy, because some backends write into the folder they build from, and the snapshot is read-only.
    for path in snapshot.files:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(snapshot.tree / path, place)
    readme = snapshot.manifest.stated_readme
    left_out = {skipped.path for skipped in snapshot.left_out}
    if readme is not None and readme in left_out and "/" not in readme:
        # `prime env push` builds in the folder, where a README of another spelling exists; its text is metadata only.
        (target / readme).write_text(f"# {snapshot.manifest.name or snapshot.name}\n", encoding="utf-8")


async def _run_build(source: Path, scratch: Path, interpreter: Interpreter) -> None:
    """Build without network and credentials, confined to the scratch folder, with the build requirements installed
    before.
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
    """Run `uv build` with the Python that has the build requirements. Returns None on success, otherwise the end of the
    output.
    """
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
    """Return a Python with the package's build requirements, made on first use.

    Only wheels are installed, so no code of theirs runs here. Raises WheelFailed, WheelUnchecked.
    """
    requires = await anyio.to_thread.run_sync(_build_requirements, source)
    digest = hashlib.sha256(json.dumps([interpreter.key, str(interpreter.python), requires]).encode()).hexdigest()[:20]
    folder = store / f"backend-{digest}"
    python = folder / "bin" / "python"
    if await anyio.to_thread.run_sync(python.exists):
        await anyio.to_thread.run_sync(os.utime, folder)
        return python
    making = Path(tempfile.mkdtemp(dir=store, prefix=".backend-"))
    try:
        venv = ["venv", "--quiet", "--no-project", "--relocatable", "--allow-existing"]
        # uv starts the Python that it is given: the base, where no package has planted anything.
        base = str(interpreter.base or interpreter.python)
        failure = await _uv([*venv, "--offline", "--python", base, str(making)], making)
        install = ["pip", "install", "--quiet", "--no-build", "--python", str(making / "bin" / "python")]
        install += ["--", *requires]
        if failure is None and await _uv(["--offline", *install], making) is not None:
            failure = await _uv(install, making)  # what the cache lacks
        if failure is not None and _UNREACHABLE.search(failure):
            raise WheelUnchecked(
                f"what builds it could not be fetched: {quote(failure, 300)}",
                fix="Check the network or set UV_INDEX_URL for the server, then call check_environment again.",
            )
        if failure is not None:
            raise WheelFailed(failure)
        with suppress(OSError):  # another server may have made the same first
            os.rename(making, folder)
    finally:
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(making, ignore_errors=True))
    return python


def _build_requirements(source: Path) -> list[str]:
    """The requirements that `[build-system]` names, or those of setuptools as uv assumes them."""
    import tomllib

    table = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    system = table.get("build-system")
    listed = system.get("requires") if isinstance(system, dict) else None
    requires = [r for r in listed if isinstance(r, str)] if isinstance(listed, list) else []
    requires = requires or ["setuptools>=40.8.0"]
    # Backends may ask for more when a build begins; setuptools before 70.1 asks for wheel.
    return [*requires, "wheel"] if any(r.startswith("setuptools") for r in requires) else requires


async def _uv(arguments: Sequence[str], folder: Path) -> str | None:
    """Run uv with the user's cache and index. Returns None on success, otherwise the end of the output."""
    try:
        completed = await process.run(
            [str(uv_program()), *arguments], cwd=folder, env=process.installer_environment(), timeout=BUILD_SECONDS
        )
    except ProcessError as error:
        return f"{error.message} (timed out)"
    return None if completed.returncode == 0 else _error_excerpt(completed.stderr, folder)


def _variables(home: Path) -> dict[str, str]:
    """Return variables as for untrusted code. uv gets a cache of its own, because a build could change the user's."""
    return process.clean_environment(
        {"UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": str(home / "uv"), "TMPDIR": str(home)}, home=home
    )


def _clean(store: Path) -> None:
    for kind in ("plan-*", "tree-*", "backend-*"):
        for old in sorted(store.glob(kind), key=_used_at, reverse=True)[KEPT_WHEELS:]:
            shutil.rmtree(old, ignore_errors=True)


def _used_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another server cleans the same store
        return 0.0
