"""Which Python runs an environment's code: the server's own, the toolchain's, or one built for its requirements.

The package itself is never installed: snapshots go on the search path. Environments are built with uv, one per set of
requirements, and shared by every server with the same state directory.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.errors import InterpreterError
from prime_lab_mcp.lab.settings import Settings
from prime_lab_mcp.lab.text import quote

Api = Literal["v0", "v1"]
Say = Callable[[str], Awaitable[None]]

_DEFAULT = {"v0": "verifiers>=0.1.14,<0.4", "v1": "verifiers>=0.4.0,<0.5"}
_BUILD = 1200.0
_LOCK_WAIT = 1500.0
_FIX = "Correct the dependencies in the environment's pyproject.toml, then call check_environment."


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python with everything a package requires. `key` names its exact contents."""

    python: Path
    verifiers: str | None
    key: str

    def program(self, name: str) -> Path | None:
        """A console script installed beside this Python, such as `vf-eval`."""
        found = self.python.parent / name
        return found if found.is_file() and os.access(found, os.X_OK) else None


class Interpreters:
    """Finds or builds the interpreter of a package."""

    def __init__(self, settings: Settings) -> None:
        self._root = settings.interpreters
        self._own: Installed | None = None

    async def for_package(
        self,
        pyproject: Mapping[str, Any],
        *,
        progress: Say | None = None,
        api: Api | None = None,
    ) -> Interpreter:
        """The interpreter for a parsed pyproject.toml. May build one, which takes seconds to minutes.

        A v0 package gets a verifiers below 0.4 whatever it allows: 0.4.0 removed that API. Raises InterpreterError.
        """
        wanted = requirements(pyproject, api)
        python_range = _python_range(pyproject)
        if self._own is None:
            self._own = await anyio.to_thread.run_sync(Installed.here)
        if self._own.satisfies(wanted, python_range):
            return self._own.interpreter()
        shared = await self._toolchain(wanted, python_range)
        if shared is not None:
            return shared
        return await self.build([str(r) for r in wanted], python_range=python_range, progress=progress)

    async def _toolchain(self, wanted: Sequence[Requirement], python_range: SpecifierSet) -> Interpreter | None:
        from prime_lab_mcp.lab.toolchain import PINS

        place = self._root / name_of(PINS, None, "toolchain-")
        built = read_ready(place)
        if built is None:
            return None
        versions = await installed_versions(built.python)
        there = Installed(built.python, versions, platform.python_version())
        return built if there.satisfies(wanted, python_range) else None

    async def build(
        self,
        wanted: Sequence[str],
        *,
        python_range: SpecifierSet | None = None,
        progress: Say | None = None,
        prefix: str = "",
    ) -> Interpreter:
        """The environment with exactly these requirements, built once. Raises InterpreterError."""
        place = self._root / name_of(wanted, python_range, prefix)
        ready = read_ready(place)
        if ready is not None:
            return ready
        self._root.mkdir(parents=True, exist_ok=True)
        async with _locked(self._root / f"{place.name}.lock", progress):
            try:
                return read_ready(place) or await _build(place, wanted, python_range, progress)
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise


@dataclass(frozen=True, slots=True)
class Installed:
    """What one Python has, as distribution names and versions."""

    python: Path
    versions: Mapping[str, str]
    python_version: str
    own: bool = False

    @classmethod
    def here(cls) -> Installed:
        """This process's own environment."""
        found: dict[str, str] = {
            canonicalize_name(d.metadata["Name"]): d.version
            for d in importlib.metadata.distributions()
            if d.metadata["Name"]
        }
        return cls(Path(sys.executable), found, platform.python_version(), own=True)

    def interpreter(self) -> Interpreter:
        listed = json.dumps([str(self.python), sorted(self.versions.items())])
        key = hashlib.sha256(listed.encode()).hexdigest()[:16]
        return Interpreter(self.python, self.versions.get("verifiers"), key)

    def satisfies(self, wanted: Sequence[Requirement], python_range: SpecifierSet) -> bool:
        """Whether every requirement is met. A requirement by URL never is: what it installed cannot be told."""
        if not python_range.contains(self.python_version, prereleases=True):
            return False
        return all(self._has(requirement) for requirement in wanted)

    def _has(self, requirement: Requirement) -> bool:
        version = self.versions.get(canonicalize_name(requirement.name))
        if version is None or requirement.url is not None:
            return False
        if not requirement.specifier.contains(version, prereleases=True):
            return False
        return all(self._has_extra(requirement.name, extra) for extra in requirement.extras)

    def _has_extra(self, name: str, extra: str) -> bool:
        if not self.own:
            return False
        needed = map(Requirement, importlib.metadata.requires(name) or ())
        return all(
            self._has(Requirement(f"{r.name}{r.specifier}"))
            for r in needed
            if r.marker is not None and r.marker.evaluate({"extra": extra}) and not r.marker.evaluate({"extra": ""})
        )


def requirements(pyproject: Mapping[str, Any], api: Api | None) -> list[Requirement]:
    """The package's dependencies that apply here, with verifiers bounded to the API. Raises InterpreterError."""
    project = pyproject.get("project")
    listed = project.get("dependencies", []) if isinstance(project, Mapping) else []
    found: list[Requirement] = []
    for text in listed if isinstance(listed, list) else []:
        try:
            requirement = Requirement(text)
        except (InvalidRequirement, TypeError) as error:
            raise InterpreterError(
                f"pyproject.toml has a dependency that cannot be read: {quote(text)}", fix=_FIX
            ) from error
        if requirement.marker is None or requirement.marker.evaluate():
            requirement.marker = None
            found.append(requirement)
    if not any(canonicalize_name(r.name) == "verifiers" for r in found):
        found.append(Requirement(_DEFAULT[api or "v1"]))
    if api == "v0":
        for requirement in found:
            if canonicalize_name(requirement.name) == "verifiers" and requirement.url is None:
                requirement.specifier &= SpecifierSet("<0.4")
    return found


def _python_range(pyproject: Mapping[str, Any]) -> SpecifierSet:
    project = pyproject.get("project")
    text = project.get("requires-python", "") if isinstance(project, Mapping) else ""
    try:
        return SpecifierSet(text)
    except (InvalidSpecifier, TypeError, AttributeError) as error:
        raise InterpreterError(f"requires-python in pyproject.toml cannot be read: {quote(text)}", fix=_FIX) from error


def name_of(wanted: Sequence[str], python_range: SpecifierSet | None, prefix: str = "") -> str:
    """The folder name of an environment: a hash of its requirements and of the Python it is built with."""
    parts = [*sorted(set(wanted)), str(python_range or ""), platform.python_version(), sys.executable]
    return prefix + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def read_ready(place: Path) -> Interpreter | None:
    """A finished environment, if it is there and still whole."""
    try:
        told = json.loads((place / "ready.json").read_text(encoding="utf-8"))
        python = place / "venv" / told["python"]
        return Interpreter(python, told["verifiers"], told["key"]) if python.exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def uv() -> Path:
    """The uv program from its wheel. Raises InterpreterError."""
    from uv import find_uv_bin

    try:
        return Path(find_uv_bin())
    except FileNotFoundError as error:
        raise InterpreterError(
            "the uv program is missing", fix="Install the package uv beside prime-lab-mcp, then call again."
        ) from error


async def _build(
    place: Path, wanted: Sequence[str], python_range: SpecifierSet | None, progress: Say | None
) -> Interpreter:
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(place, ignore_errors=True))
    place.mkdir(parents=True)
    if progress is not None:
        await progress(f"building a Python environment with {', '.join(sorted(wanted))[:200]}")
    venv = place / "venv"
    own = python_range is None or python_range.contains(platform.python_version(), prereleases=True)
    base = sys.executable if own else str(python_range)
    await _uv(["venv", "--quiet", "--no-project", "--python", base, str(venv)], place)
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    listed = place / "requirements.txt"
    listed.write_text("\n".join(wanted) + "\n", encoding="utf-8")
    await _uv(["pip", "install", "--python", str(python), "--requirements", str(listed)], place)
    versions = await installed_versions(python)
    key = hashlib.sha256(json.dumps(sorted(versions.items())).encode()).hexdigest()[:16]
    told = {
        "python": str(python.relative_to(venv)),
        "verifiers": versions.get("verifiers"),
        "key": f"{place.name[-8:]}{key}",
        "requirements": sorted(wanted),
        "versions": dict(versions),
    }
    partial = place / "ready.json.partial"
    partial.write_text(json.dumps(told, indent=1), encoding="utf-8")
    partial.replace(place / "ready.json")
    ready = read_ready(place)
    assert ready is not None
    return ready


async def _uv(arguments: Sequence[str], cwd: Path) -> None:
    done = await process.run([str(uv()), *arguments], cwd=cwd, env=process.installer_environment(), timeout=_BUILD)
    if done.returncode == 0:
        return
    said = re.sub(r"\s+", " ", done.stderr or done.stdout).strip()
    raise _uv_error(said)


def _uv_error(said: str) -> InterpreterError:
    shown = quote(said, 900)
    if "No solution found" in said or "unsatisfiable" in said or "was not found in the" in said:
        return InterpreterError(
            f"the package's requirements cannot be installed together: {shown}",
            fix=_FIX,
            code="requirements-unsatisfiable",
        )
    if "No interpreter found" in said:
        return InterpreterError(
            f"no Python on this machine fits requires-python: {shown}",
            fix="Install such a Python, or widen requires-python in the environment's pyproject.toml.",
            code="python-missing",
        )
    if re.search(r"error sending request|Failed to fetch|dns error|timed out|Connection|connect", said):
        return InterpreterError(
            f"the package index could not be reached: {shown}",
            fix="Check the network or set UV_INDEX_URL for the server, then call again.",
            code="index-unreachable",
        )
    return InterpreterError(
        f"uv could not install the package's requirements: {shown}", fix=_FIX, code="requirements-failed"
    )


async def installed_versions(python: Path) -> dict[str, str]:
    """Distribution names and versions that a Python has, read from its folders without starting it."""
    return await anyio.to_thread.run_sync(_read_versions, python)


def _read_versions(python: Path) -> dict[str, str]:
    root = python.parent.parent
    paths = [str(p) for p in (*root.glob("lib/python*/site-packages"), root / "Lib" / "site-packages")]
    return {
        canonicalize_name(d.metadata["Name"]): d.version
        for d in importlib.metadata.distributions(path=paths)
        if d.metadata["Name"]
    }


def own_scripts() -> Path:
    """Where this process's environment has its console scripts."""
    return Path(sysconfig.get_path("scripts"))


@asynccontextmanager
async def _locked(path: Path, progress: Say | None) -> AsyncIterator[None]:
    """Hold a lock file, so that two servers do not build the same environment."""
    import fcntl

    with path.open("a", encoding="utf-8") as lock:
        told = False
        with anyio.move_on_after(_LOCK_WAIT) as clock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if progress is not None and not told:
                        await progress("waiting for another server that builds the same Python environment")
                        told = True
                    await anyio.sleep(0.2)
        if clock.cancelled_caught:
            raise InterpreterError(
                "another server has been building the same Python environment for too long",
                fix="End the other server, then call again.",
            )
        yield
