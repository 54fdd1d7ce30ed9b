"""The package as others get it: its wheel, built from the snapshot and unpacked for loading.

`prime env push` builds the wheel and training installs it, so a file that the build leaves out works in the folder and
fails there. Built with uv in isolation, in a scratch copy, without credentials.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import anyio

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.errors import LabError, ProcessError
from prime_lab_mcp.lab.interpreter import Interpreter, uv
from prime_lab_mcp.lab.settings import Settings
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.text import quote

BUILD_SECONDS = 120.0
KEEP = 20
"""Unpacked wheels kept in the state directory."""
_MAX_BYTES = 512 << 20
_UNREACHABLE = re.compile(
    r"error sending request|Failed to fetch|dns error|timed out|connection (?:refused|reset)|network was disabled"
    r"|network connectivity is disabled|not found in the cache",
    re.I,
)
_METADATA = re.compile(r"[^/]+\.(?:dist-info|data)/")
_SCRIPTS = frozenset(
    {"setup.py", "setup.cfg", "MANIFEST.in", "hatch_build.py", "hatch.toml", "build.py", "meson.build"}
)
_CREDENTIAL = re.compile(r"TOKEN|PASSWORD|USERNAME|SECRET|_KEY$")
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


class WheelFailed(LabError):
    """The package does not build: a flaw of the package. `said` is what the build backend said, foreign text."""

    def __init__(self, said: str) -> None:
        super().__init__(f"the wheel does not build: {quote(said, 600)}", fix="Mend [build-system] in pyproject.toml.")
        self.said = said


class WheelUnchecked(LabError):
    """The wheel could not be built for a reason that says nothing about the package."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """An unpacked wheel. `files` maps its paths, without the metadata, to sha256 of the bytes."""

    tree: Path
    files: Mapping[str, str]


async def build(settings: Settings, snapshot: Snapshot, interpreter: Interpreter) -> Wheel:
    """The wheel of a snapshot, unpacked. Raises WheelFailed, WheelUnchecked.

    Which files a wheel holds is decided by pyproject.toml, the names of the files and the build scripts; as long as
    these stay the same, an edit costs no new build. Where the build makes files of its own, it is repeated.
    """
    store = settings.state_dir / "wheels"
    await anyio.to_thread.run_sync(lambda: store.mkdir(parents=True, exist_ok=True))
    plan = store / f"plan-{_key(snapshot, interpreter)}"
    known = await anyio.to_thread.run_sync(_plan, plan)
    if known is None or known.get("content") not in (None, snapshot.content):
        scratch = Path(tempfile.mkdtemp(dir=store, prefix=".building-"))
        try:
            source = scratch / "source"
            await anyio.to_thread.run_sync(_copy, snapshot, source)
            await _run_build(source, scratch, interpreter)
            known = await anyio.to_thread.run_sync(_keep, scratch, plan, snapshot)
        finally:
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(scratch, ignore_errors=True))
    return await anyio.to_thread.run_sync(_assemble, store, plan, known, snapshot)


def _key(snapshot: Snapshot, interpreter: Interpreter) -> str:
    decisive = [p for p in snapshot.files if p == "pyproject.toml" or PurePosixPath(p).name in _SCRIPTS]
    told = [interpreter.key, sorted(snapshot.files), [(p, snapshot.files[p]) for p in sorted(decisive)]]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def _plan(place: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((place / "plan.json").read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None


def _keep(scratch: Path, place: Path, snapshot: Snapshot) -> dict[str, Any]:
    """Note which pushed file each file of the wheel is; what the build made itself is kept beside the note."""
    tree, made = scratch / "tree", scratch / "made"
    _unpack(scratch / "dist", tree)
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
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, made / name)
    repeated = any(not _METADATA.match(name) for name in own) or bool(snapshot.manifest.project.get("dynamic"))
    plan = {"files": files, "own": own, "content": snapshot.content if repeated else None}
    made.mkdir(exist_ok=True)
    (made / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError):  # another server may have kept the same first
        os.rename(made, place)
    return plan


def _assemble(store: Path, place: Path, plan: Mapping[str, Any], snapshot: Snapshot) -> Wheel:
    """The unpacked wheel of this content, of links to the snapshot's own files."""
    tree = store / f"tree-{snapshot.content[:32]}-{place.name[-8:]}"
    listed = {n: snapshot.files[origin] for n, origin in plan["files"].items()}
    listed |= {n: d for n, d in plan["own"].items() if not _METADATA.match(n)}
    if not tree.is_dir():
        building = Path(tempfile.mkdtemp(dir=store, prefix=".tree-"))
        for name in (*plan["files"], *plan["own"]):
            target = building / name
            target.parent.mkdir(parents=True, exist_ok=True)
            origin = plan["files"].get(name)
            _link(snapshot.tree / origin if origin is not None else place / name, target)
        try:
            os.rename(building, tree)
        except OSError:
            shutil.rmtree(building, ignore_errors=True)
            if not tree.is_dir():
                raise
        _clean(store)
    os.utime(tree)
    return Wheel(tree, listed)


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


async def _run_build(source: Path, scratch: Path, interpreter: Interpreter) -> None:
    """uv builds from its cache, without network and credentials; only what is missing there is fetched first."""
    said = await _uv_build(source, scratch, interpreter)
    if said is not None and _UNREACHABLE.search(said):
        fetched = await _fetch(source, scratch, interpreter)
        said = fetched if fetched is not None else await _uv_build(source, scratch, interpreter)
        if said is not None and _UNREACHABLE.search(said):
            raise WheelUnchecked(
                f"what builds it could not be fetched: {quote(said, 300)}",
                fix="Check the network or set UV_INDEX_URL for the server, then call check_environment again.",
            )
    if said is not None:
        raise WheelFailed(said)


async def _uv_build(source: Path, scratch: Path, interpreter: Interpreter) -> str | None:
    """None when it worked, else the end of what was said."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    argv = [str(uv()), "build", "--offline", "--wheel", "--no-progress", "--out-dir", str(scratch / "dist")]
    argv += ["--python", str(interpreter.python), str(source)]
    try:
        done = await process.run(argv, cwd=scratch, env=_variables(home), timeout=BUILD_SECONDS)
    except ProcessError as error:
        if error.code == "process-timeout":
            return f"it did not end within {BUILD_SECONDS:g} seconds"
        raise
    if done.returncode == 0:
        return None
    return _said(done.stderr or done.stdout, source)


def _said(output: str, source: Path) -> str:
    lines = [line.strip() for line in output.replace(f"{source}/", "").splitlines() if line.strip()]
    errors = [n for n, line in enumerate(lines) if re.search(r"^\S*(?:Error|error|×|Caused)", line)]
    return " ".join(lines[max(0, errors[-1] - 3) :] if errors else lines)[-1500:]


async def _fetch(source: Path, scratch: Path, interpreter: Interpreter) -> str | None:
    """Bring what builds the package into uv's cache; none of the package's own code runs here."""
    import tomllib

    table = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    system = table.get("build-system")
    wanted = system.get("requires") if isinstance(system, dict) else None
    listed = [r for r in wanted if isinstance(r, str)] if isinstance(wanted, list) else []
    argv = [str(uv()), "pip", "install", "--quiet", "--python", str(interpreter.python)]
    argv += ["--target", str(scratch / "backend"), "--", *(listed or ["setuptools>=40.8.0"])]
    try:
        done = await process.run(argv, cwd=scratch, env=process.installer_environment(), timeout=BUILD_SECONDS)
    except ProcessError as error:
        return f"{error.message} (timed out)"
    return None if done.returncode == 0 else _said(done.stderr, source)


def _variables(home: Path) -> dict[str, str]:
    """As for code we do not trust, with uv's cache and index settings less whatever is a credential."""
    own = os.environ
    cache = Path(own.get("XDG_CACHE_HOME") or Path(own.get("HOME", "/")) / ".cache") / "uv"
    settings = Path(own.get("XDG_CONFIG_HOME") or Path(own.get("HOME", "/")) / ".config") / "uv" / "uv.toml"
    extra = {k: _USERINFO.sub("", v) for k, v in own.items() if k.startswith("UV_") and not _CREDENTIAL.search(k)} | {
        "UV_PYTHON_DOWNLOADS": "never"
    }
    extra.setdefault("UV_CACHE_DIR", str(cache))
    if settings.is_file():
        extra.setdefault("UV_CONFIG_FILE", str(settings))
    return process.clean_environment(extra, home=home)


def _unpack(dist: Path, tree: Path) -> None:
    wheels = sorted(dist.glob("*.whl"))
    if not wheels:
        raise WheelFailed("the build ended well and left no wheel")
    tree.mkdir()
    try:
        with zipfile.ZipFile(wheels[0]) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
                raise WheelFailed(f"the wheel unpacks to more than {_MAX_BYTES >> 20} MiB")
            archive.extractall(tree)
    except zipfile.BadZipFile as error:
        raise WheelFailed(f"the wheel is no readable archive: {error}") from error
    for kind in ("purelib", "platlib"):
        for folder in tree.glob(f"*.data/{kind}"):
            shutil.copytree(folder, tree, dirs_exist_ok=True)


def _clean(store: Path) -> None:
    for kind in ("plan-*", "tree-*"):
        for old in sorted(store.glob(kind), key=lambda p: p.stat().st_mtime, reverse=True)[KEEP:]:
            shutil.rmtree(old, ignore_errors=True)
