"""Chooses the Python that runs an environment's code: the server's, the toolchain's, or one built for its requirements.

The environment package itself is never installed; its snapshot is put on the search path. Python environments are built
with uv, one for each set of requirements. All servers with the same state directory share them. Requirements are
installed as wheels. If a requirement has no wheel, its build runs confined.
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
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import InterpreterError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Say
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.base.versions import OLDEST_V0, TOOLCHAIN, V0_INSTALLED, V1_REQUIREMENT
from prime_lab_mcp.lab.sandbox.policy import NAMES_OVER_TCP, PORTS, Confinement, certificate_paths, python_paths

Api = Literal["v0", "v1"]

_DEFAULT = {"v0": V0_INSTALLED, "v1": V1_REQUIREMENT}
_BUILD_SECONDS = 1200.0
_LOCK_SECONDS = 1500.0
_FIX = Fix(
    "Correct the dependencies in the environment's pyproject.toml, then call ", NamedCall("check_environment"), "."
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that has everything a package requires. `key` identifies the installed versions."""

    python: Path
    verifiers: str | None
    key: str
    base: Path | None = None
    """The Python installation below a built environment, which its packages cannot overwrite. None: the
    server's own."""

    def program(self, name: str) -> Path | None:
        """Path of a console script installed beside this Python, such as `vf-eval`; None if there is none."""
        script = self.python.parent / name
        return script if script.is_file() and os.access(script, os.X_OK) else None


class Interpreters:
    """Finds or builds the interpreter of a package."""

    def __init__(self, settings: Settings) -> None:
        self._root = settings.interpreters
        self._own: InstalledVersions | None = None
        self._reading_own = anyio.Lock()

    async def for_package(
        self,
        pyproject: Mapping[str, Any],
        *,
        progress: Say | None = None,
        api: Api | None = None,
    ) -> Interpreter:
        """Return the interpreter for a parsed pyproject.toml, and build it if needed, which takes seconds to minutes.

        A v0 package gets verifiers below 0.4 even if its requirement allows more, because 0.4.0 removed the v0 API.
        Raises InterpreterError.
        """
        requirements = interpreter_requirements(pyproject, api)
        python_range = _python_range(pyproject)
        shared = await self._shared(requirements, python_range)
        if shared is not None:
            return shared
        return await self.build([str(r) for r in requirements], python_range=python_range, progress=progress)

    async def present(self, pyproject: Mapping[str, Any], *, api: Api | None = None) -> Interpreter | None:
        """The interpreter of `for_package` if it exists; nothing is built. Raises InterpreterError."""
        requirements = interpreter_requirements(pyproject, api)
        python_range = _python_range(pyproject)
        shared = await self._shared(requirements, python_range)
        name = interpreter_name([str(r) for r in requirements], python_range)
        return shared or read_interpreter(self._root / name)

    async def _shared(self, requirements: Sequence[Requirement], python_range: SpecifierSet) -> Interpreter | None:
        """The server's own interpreter or the toolchain's, if one satisfies the requirements; else None."""
        async with self._reading_own:  # the read takes half a second; concurrent calls share it
            own = self._own if self._own is not None else await anyio.to_thread.run_sync(InstalledVersions.here)
            self._own = own
        if own.satisfies(requirements, python_range):
            return own.interpreter()
        return await self._toolchain(requirements, python_range)

    async def _toolchain(self, requirements: Sequence[Requirement], python_range: SpecifierSet) -> Interpreter | None:
        folder = self._root / interpreter_name(TOOLCHAIN, None, "toolchain-")
        built = read_interpreter(folder)
        if built is None:
            return None
        versions = await installed_versions(built.python)
        installed = InstalledVersions(built.python, versions, platform.python_version())
        return built if installed.satisfies(requirements, python_range) else None

    async def build(
        self,
        requirements: Sequence[str],
        *,
        python_range: SpecifierSet | None = None,
        progress: Say | None = None,
        prefix: str = "",
    ) -> Interpreter:
        """Return the Python environment with exactly these requirements, built on first use.

        Raises InterpreterError.
        """
        folder = self._root / interpreter_name(requirements, python_range, prefix)
        ready = read_interpreter(folder)
        if ready is not None:
            return ready
        self._root.mkdir(parents=True, exist_ok=True)
        async with _locked(self._root / f"{folder.name}.lock", progress):
            try:
                return read_interpreter(folder) or await _build(folder, requirements, python_range, progress)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise


@dataclass(frozen=True, slots=True)
class InstalledVersions:
    """The distributions installed in one Python, with their versions."""

    python: Path
    versions: Mapping[str, str]
    python_version: str
    own: bool = False

    @classmethod
    def here(cls) -> InstalledVersions:
        """The distributions of this process's Python."""
        listed = (d.metadata for d in importlib.metadata.distributions())  # each access parses the file
        versions: dict[str, str] = {canonicalize_name(m["Name"]): m["Version"] for m in listed if m["Name"]}
        return cls(Path(sys.executable), versions, platform.python_version(), own=True)

    def interpreter(self) -> Interpreter:
        listed = json.dumps([str(self.python), sorted(self.versions.items())])
        key = hashlib.sha256(listed.encode()).hexdigest()[:16]
        return Interpreter(self.python, self.versions.get("verifiers"), key)

    def satisfies(self, requirements: Sequence[Requirement], python_range: SpecifierSet) -> bool:
        """True if every requirement is met. A requirement by URL never is, because the source of the installed files is
        unknown."""
        if not python_range.contains(self.python_version, prereleases=True):
            return False
        return all(self._has(requirement) for requirement in requirements)

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


def interpreter_requirements(pyproject: Mapping[str, Any], api: Api | None) -> list[Requirement]:
    """Return the dependencies that apply on this machine, with verifiers limited to the API.

    A v0 package that allows the last release of the 0.1 line gets no older one.

    Raises InterpreterError.
    """
    project = pyproject.get("project")
    listed = project.get("dependencies", []) if isinstance(project, Mapping) else []
    requirements: list[Requirement] = []
    for text in listed if isinstance(listed, list) else []:
        try:
            requirement = Requirement(text)
        except (InvalidRequirement, TypeError) as error:
            raise InterpreterError(
                f"pyproject.toml has a dependency that cannot be read: {quote(text)}", fix=_FIX
            ) from error
        if requirement.marker is None or requirement.marker.evaluate():
            requirement.marker = None
            requirements.append(requirement)
    if not any(canonicalize_name(r.name) == "verifiers" for r in requirements):
        requirements.append(Requirement(_DEFAULT[api or "v1"]))
    if api == "v0":
        for requirement in requirements:
            if canonicalize_name(requirement.name) == "verifiers" and requirement.url is None:
                requirement.specifier &= SpecifierSet("<0.4")
                if requirement.specifier.contains(OLDEST_V0):
                    # Beside unbounded dependencies, uv would choose a release that is years older and has another API.
                    requirement.specifier &= SpecifierSet(f">={OLDEST_V0}")
    return requirements


def _python_range(pyproject: Mapping[str, Any]) -> SpecifierSet:
    project = pyproject.get("project")
    text = project.get("requires-python", "") if isinstance(project, Mapping) else ""
    try:
        return SpecifierSet(text)
    except (InvalidSpecifier, TypeError, AttributeError) as error:
        raise InterpreterError(f"requires-python in pyproject.toml cannot be read: {quote(text)}", fix=_FIX) from error


def interpreter_name(requirements: Sequence[str], python_range: SpecifierSet | None, prefix: str = "") -> str:
    """The folder name of a Python environment: a hash of its requirements and of the Python that builds it."""
    parts = [*sorted(set(requirements)), str(python_range or ""), platform.python_version(), sys.executable]
    return prefix + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def read_interpreter(folder: Path) -> Interpreter | None:
    """Return a built environment; None if it is missing or incomplete."""
    try:
        record = json.loads((folder / "ready.json").read_text(encoding="utf-8"))
        python = folder / "venv" / record["python"]
        base = Path(record.get("base") or python.resolve())  # records of older versions have none
        if base.is_relative_to(folder):
            base = Path(sys.executable)
        with suppress(OSError):  # folders of other users cannot be marked as used
            os.utime(folder)
        return Interpreter(python, record["verifiers"], record["key"], base) if python.exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def uv_program() -> Path:
    """Return the path of uv, which its wheel installs. Raises InterpreterError."""
    from uv import find_uv_bin

    try:
        return Path(find_uv_bin())
    except FileNotFoundError as error:
        raise InterpreterError(
            "the uv program is missing", fix="Install the package uv beside prime-lab-mcp, then call again."
        ) from error


async def _build(
    folder: Path, requirements: Sequence[str], python_range: SpecifierSet | None, progress: Say | None
) -> Interpreter:
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))
    folder.mkdir(parents=True)
    if progress is not None:
        await progress(f"building a Python environment with {', '.join(sorted(requirements))[:200]}")
    venv = folder / "venv"
    own = python_range is None or python_range.contains(platform.python_version(), prereleases=True)
    base = sys.executable if own else str(python_range)
    await _create_venv(["venv", "--quiet", "--no-project", "--python", base, str(venv)], folder)
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    installation = python.resolve()
    listed = folder / "requirements.txt"
    listed.write_text("\n".join(requirements) + "\n", encoding="utf-8")
    await _install(folder, python, listed)
    versions = await installed_versions(python)
    key = hashlib.sha256(json.dumps(sorted(versions.items())).encode()).hexdigest()[:16]
    record = {
        "python": str(python.relative_to(venv)),
        "base": str(installation),
        "verifiers": versions.get("verifiers"),
        "key": f"{folder.name[-8:]}{key}",
        "requirements": sorted(requirements),
        "versions": dict(versions),
    }
    partial = folder / "ready.json.partial"
    partial.write_text(json.dumps(record, indent=1), encoding="utf-8")
    partial.replace(folder / "ready.json")
    ready = read_interpreter(folder)
    assert ready is not None
    return ready


_BROKEN_PYTHON = re.compile(r"Failed to inspect Python interpreter from search path at `([^`]+)`")
_BROKEN_FOLDERS = 5
"""Number of broken folders of the search path that are skipped at most."""


async def _create_venv(arguments: Sequence[str], folder: Path) -> None:
    """Create a Python environment. Folders of the search path with a broken Python are skipped.

    uv stops at the first Python on the search path that does not start, such as a pyenv shim for a version that is not
    selected.
    """
    environment = process.installer_environment()
    for _ in range(_BROKEN_FOLDERS):
        try:
            return await _uv(arguments, folder, environment)
        except InterpreterError as error:
            broken = _BROKEN_PYTHON.search(error.message)
            if broken is None:
                raise
            environment = environment | {"PATH": _search_path(environment.get("PATH", ""), Path(broken[1]).parent)}
    await _uv(arguments, folder, environment)


def _search_path(path: str, without: Path) -> str:
    """A search path without one folder. If that folder holds pyenv shims, the folders of the real versions are
    added."""
    folders = [part for part in path.split(os.pathsep) if part and Path(part) != without]
    if without.name == "shims":
        folders += [str(p) for p in sorted(without.parent.glob("versions/*/bin"))]
    return os.pathsep.join(folders)


async def _install(folder: Path, python: Path, listed: Path) -> None:
    """Install wheels, which runs no code. If a package has no wheel, install everything in a confined process."""
    arguments = ["pip", "install", "--python", str(python), "--requirements", str(listed)]
    # If the newest release has no wheel, uv would otherwise choose a pre-release that has one.
    wheels = [*arguments, "--no-build", "--prerelease", "explicit"]
    try:
        try:
            await _uv(wheels, folder)
        except InterpreterError as error:
            known = [text for name, text in _KNOWN_SOURCES.items() if f"{name}==" in error.message]
            if not known:
                raise
            sources = folder / "sources.txt"
            sources.write_text("\n".join(known) + "\n", encoding="utf-8")
            hashed = ["pip", "install", "--python", str(python), "--require-hashes", "--requirements", str(sources)]
            await _uv(hashed, folder)
            await _uv(wheels, folder)
    except InterpreterError as error:
        if not _NEEDS_BUILD.search(error.message):
            raise
        building = folder / "building"
        building.mkdir()
        # The build may not write to the whole folder: it could plant links where this process writes.
        written = (folder / "venv", building)
        await _uv(arguments, building, _building_environment(building), _building_confinement(written, listed))
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(building, ignore_errors=True))


_KNOWN_SOURCES = {
    "wget": "wget==3.2 --hash=sha256:35e630eca2aa50ce998b9b1a127bb26b30dfee573702782aa982f875e3f16061",
    "gitignore-parser": (
        "gitignore-parser==0.1.13 --hash=sha256:c7e10c8190accb8ae57fb3711889e73a9c0dbc04d4222b91ace8a4bf64d2f746"
    ),
}
"""Source packages without a wheel that verifiers before 0.2 (wget) and prime (gitignore-parser) require, with the hash
of their source. Their code is known, as that of verifiers and prime is, so their builds are not confined."""
_NEEDS_BUILD = re.compile(r"no usable wheels|building (?:from )?source|failed to download and build", re.I)
_SHARED_VARIABLES = frozenset(
    {
        *("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX_STRATEGY"),
        *("UV_OFFLINE", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "UV_INSECURE_HOST"),
        *("UV_EXCLUDE_NEWER", "UV_TORCH_BACKEND", "UV_LINK_MODE"),
    }
)
"""Settings of uv that a confined build may see. Values with an @ may hold a password and are withheld."""


def _building_environment(building: Path) -> dict[str, str]:
    """The variables of a confined installation. uv gets a separate cache, because a build could change the user's
    cache."""
    own = {"UV_CACHE_DIR": str(building / "uv"), "TMPDIR": str(building), "UV_PYTHON_DOWNLOADS": "never"}
    passed = {
        name: value
        for name, value in os.environ.items()
        if (name in _SHARED_VARIABLES or name.lower() in _PROXIES) and "@" not in value
    }
    return process.clean_environment(passed | NAMES_OVER_TCP | own, home=building)


_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def _building_confinement(written: Sequence[Path], listed: Path) -> Confinement:
    """The confinement of an installation that runs builds: it reads the base Python, package folders and the index."""
    uv = uv_program()
    ports, folders = set(PORTS), []
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        for place in os.environ.get(name, "").split():
            address = place.rpartition("=")[2] if name == "UV_INDEX" else place
            split = urlsplit(address)
            if split.scheme in ("http", "https"):
                with suppress(ValueError):
                    ports.add(split.port or 443)
            else:
                folders.append(Path(split.path if split.scheme == "file" else address))
    read = (listed, uv, uv.resolve(), *python_paths(written[0] / "bin" / "python"), *folders, *certificate_paths())
    return Confinement(read, tuple(written), ports=tuple(sorted(ports)), hidden=(written[0].parents[2],))


async def _uv(
    arguments: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    confinement: Confinement | None = None,
) -> None:
    argv = [str(uv_program()), *arguments]
    done = await process.run(
        argv if confinement is None else confinement.command(argv),
        cwd=cwd,
        env=environment if environment is not None else process.installer_environment(),
        timeout=_BUILD_SECONDS,
    )
    if done.returncode == 0:
        return
    output = re.sub(r"\s+", " ", done.stderr or done.stdout).strip()
    if confinement is not None and _REFUSED.search(output):
        raise InterpreterError(
            f"a required package has no wheel, and its build needs something that confinement refuses: "
            f"{quote(output, 900)}",
            fix="Require a version of the package that has a wheel for this machine; a build reads only its own files "
            "and the system, and writes only to its own folder.",
            code="confined",
        )
    raise _uv_error(output)


_REFUSED = re.compile(r"Permission denied|PermissionError|Operation not permitted|os error 13|could not be confined")


def _uv_error(output: str) -> InterpreterError:
    quoted = quote(output, 900)
    if "No solution found" in output or "unsatisfiable" in output or "was not found in the" in output:
        return InterpreterError(
            f"the package's requirements cannot be installed together: {quoted}",
            fix=_FIX,
            code="requirements-unsatisfiable",
        )
    if "No interpreter found" in output or "Failed to inspect Python interpreter" in output:
        return InterpreterError(
            f"no Python on this machine fits requires-python: {quoted}",
            fix="Install such a Python, or widen requires-python in the environment's pyproject.toml.",
            code="python-missing",
        )
    if re.search(r"(?i)certificate", output):
        return InterpreterError(
            f"the package index answered with a certificate that uv does not trust: {quoted}",
            fix="Set SSL_CERT_FILE to the file with the certificate of your network or proxy, or UV_SYSTEM_CERTS=true, "
            "for the server, then call again.",
            code="index-unreachable",
        )
    if re.search(r"error sending request|Failed to fetch|dns error|timed out|Connection|connect", output):
        return InterpreterError(
            f"the package index could not be reached: {quoted}",
            fix="Check the network or set UV_INDEX_URL for the server, then call again.",
            code="index-unreachable",
        )
    return InterpreterError(
        f"uv could not install the package's requirements: {quoted}", fix=_FIX, code="requirements-failed"
    )


async def installed_versions(python: Path) -> dict[str, str]:
    """Return the distributions and versions of a Python, read from its folders without starting it."""
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
    """Folder of the console scripts of this process's Python."""
    return Path(sysconfig.get_path("scripts"))


@asynccontextmanager
async def _locked(path: Path, progress: Say | None) -> AsyncIterator[None]:
    """Hold a lock file, so that two servers do not build the same environment at the same time."""
    import fcntl

    with path.open("a", encoding="utf-8") as lock:
        announced = False
        with anyio.move_on_after(_LOCK_SECONDS) as clock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if progress is not None and not announced:
                        await progress("waiting for another server that builds the same Python environment")
                        announced = True
                    await anyio.sleep(0.2)
        if clock.cancelled_caught:
            raise InterpreterError(
                "another server has been building the same Python environment for too long",
                fix="End the other server, then call again.",
            )
        yield
