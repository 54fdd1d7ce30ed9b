"""Finds the user's `prime`, sets up its environment variables and runs it."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import ProcessError
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.versions import OLDEST_PRIME
from prime_lab_mcp.lab.prime import refusals
from prime_lab_mcp.lab.prime.answers import version_of
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal

_JSON_LIMIT = 32_000_000
SEVERAL_COMMANDS = Path(__file__).with_name("several_commands.py")
_AHEAD_SECONDS = 20.0
"""Seconds for which an answer of `ask_ahead` may be used."""
_PLATFORM_VARIABLE = re.compile(r"^PRIME_(?!LAB_|DISABLE_VERSION_CHECK$)[A-Z0-9_]+$")
_LOOPBACK = "127.0.0.1,localhost,::1"


class PrimeFinder(Protocol):
    """Finds installed programs (lab/toolchain.py implements it)."""

    def programs(self, name: str) -> tuple[Path, ...]:
        """Every path of this program, in order of preference."""


class PrimeProgram:
    """Runs one `prime` program. In rehearsal, the program only knows the loopback platform and a scratch HOME."""

    def __init__(
        self,
        settings: Settings,
        toolchain: PrimeFinder,
        platform_variables: Callable[[], Awaitable[Mapping[str, str]]],
    ) -> None:
        self._settings = settings
        self._toolchain = toolchain
        self._platform_variables = platform_variables
        self._program: tuple[Path, str] | None = None
        self._first_command = anyio.Lock()
        self._used_homes: set[Path] = set()
        self._ahead: dict[tuple[str, ...], tuple[float, process.CompletedProcess]] = {}

    async def find(self) -> tuple[Path, str]:
        """Return path and version of the first `prime` that is new enough.

        Raises PrimeRefusal (`prime-missing`, `prime-too-old`).
        """
        if self._program is not None and self._program[0].is_file():
            return self._program
        oldest: str | None = None
        for path in self._toolchain.programs("prime"):
            version = await anyio.to_thread.run_sync(installed_version, path)
            if version is None:
                done = await self._start([str(path), "--version"], 30.0, {}, None, "asking prime for its version")
                version = version_of(done.stdout) if done.returncode == 0 else None
            if version is not None and _is_new_enough(version):
                self._program = (path, version)
                return self._program
            oldest = oldest or version or "unknown"
        if oldest is None:
            raise refusals.refusal_of_kind(refusals.MISSING, "looking for prime")
        raise refusals.refusal_of_kind(refusals.TOO_OLD, "looking for prime", f"version {oldest}")

    async def text(
        self,
        arguments: Sequence[str],
        *,
        timeout: float,
        doing: str,
        cwd: Path | None = None,
        extra: Mapping[str, str] | None = None,
        limit: int = _JSON_LIMIT,
    ) -> str:
        """Run a command and return its standard output. Raises PrimeRefusal if the command fails."""
        done = await self.completed(arguments, timeout=timeout, doing=doing, cwd=cwd, extra=extra, limit=limit)
        if done.returncode != 0:
            raise refusals.refusal(done, doing)
        return done.stdout

    async def json(self, arguments: Sequence[str], *, timeout: float, doing: str) -> dict[str, Any]:
        """Run a command and return the JSON object that it prints. Raises PrimeRefusal."""
        return parse_json(await self.text(arguments, timeout=timeout, doing=doing), doing)

    async def completed(
        self,
        arguments: Sequence[str],
        *,
        timeout: float,
        doing: str,
        cwd: Path | None = None,
        extra: Mapping[str, str] | None = None,
        limit: int = _JSON_LIMIT,
    ) -> process.CompletedProcess:
        """Run a command to its end, and return the result with any exit code. Raises PrimeRefusal after the timeout."""
        path, _ = await self.find()
        ahead = self._ahead.pop(tuple(arguments), None) if cwd is None and not extra else None
        if ahead is not None and time.monotonic() - ahead[0] < _AHEAD_SECONDS:
            return ahead[1]
        async with self._alone_in_fresh_home(Path((await self.variables())["HOME"])):
            return await self._start([str(path), *arguments], timeout, dict(extra or {}), cwd, doing, limit)

    async def ask_ahead(self, commands: Sequence[Sequence[str]]) -> None:
        """Run several read-only commands in one process. The next call of each command gets this answer, once.

        If `prime` is not a script of a suitable Python, or if anything fails, nothing is stored. Each command then runs
        in its own process.
        """
        try:
            path, _ = await self.find()
            python = await anyio.to_thread.run_sync(_python_of, path)
            if python is None or len(commands) < 2:
                return
            argv = [
                python,
                "-c",
                SEVERAL_COMMANDS.read_text(encoding="utf-8"),
                json.dumps([list(c) for c in commands]),
            ]
            async with self._alone_in_fresh_home(Path((await self.variables())["HOME"])):
                done = await self._start(argv, 60.0, {}, None, "asking prime several things", _JSON_LIMIT)
            answers = json.loads(done.stdout)
            self._ahead = {c: a for c, a in self._ahead.items() if time.monotonic() - a[0] < _AHEAD_SECONDS}
            for command, answer in zip(commands, answers, strict=True):
                ended = process.CompletedProcess(
                    (str(path), *command), int(answer["code"]), str(answer["out"]), str(answer["err"]), done.seconds
                )
                self._ahead[tuple(command)] = (time.monotonic(), ended)
        except (PrimeRefusal, ValueError, KeyError, TypeError):
            return

    def forget_ahead(self) -> None:
        """Drop the answers of `ask_ahead` that were not used, because they may be outdated later."""
        self._ahead.clear()

    async def variables(self) -> dict[str, str]:
        """The variables of a `prime` process: the user's PRIME_* variables, or in rehearsal those of the loopback
        platform."""
        variables = process.installer_environment()
        del variables["UV_PYTHON_DOWNLOADS"]  # the user's prime may download a Python to build with
        variables |= {k: v for k, v in os.environ.items() if k == "UV_PYTHON_DOWNLOADS"}
        if self._settings.rehearsal:
            variables.update(_uv_settings(variables))
            variables["HOME"] = str(self._settings.rehearsal_dir / "home")
            variables.update(await self._platform_variables())
            for name in ("NO_PROXY", "no_proxy"):
                variables[name] = ",".join(filter(None, (variables.get(name), _LOOPBACK)))
        else:
            variables.update({k: v for k, v in os.environ.items() if _PLATFORM_VARIABLE.match(k)})
        variables |= {"PRIME_DISABLE_VERSION_CHECK": "1", "NO_COLOR": "1", "COLUMNS": "1000", "TERM": "dumb"}
        Path(variables["HOME"]).mkdir(parents=True, exist_ok=True)
        return _with_uv(variables, self._toolchain)

    def _scratch(self) -> Path:
        """Return a working folder without `.prime` and `environments`, which prime reads in its working folder."""
        folder = self._settings.state_dir / "prime"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def _start(
        self,
        argv: Sequence[str],
        timeout: float,
        extra: Mapping[str, str],
        cwd: Path | None,
        doing: str,
        limit: int = 100_000,
    ) -> process.CompletedProcess:
        env = await self.variables() | dict(extra)
        try:
            return await process.run(argv, cwd=cwd or self._scratch(), env=env, timeout=timeout, output_limit=limit)
        except ProcessError as error:
            if error.code == "process-timeout":
                raise refusals.refusal_of_kind(refusals.SLOW, doing, f"no end after {timeout:g} seconds") from error
            if error.code == "program-missing":
                raise refusals.refusal_of_kind(refusals.MISSING, doing) from error
            raise refusals.refusal_of_kind(refusals.GARBLED, doing, error.message) from error

    @asynccontextmanager
    async def _alone_in_fresh_home(self, home: Path) -> AsyncIterator[None]:
        """Make other commands wait while the first command in a HOME writes the configuration file of `prime`.

        prime 0.18 empties the file before it writes, so a concurrent command could read an empty file.
        """
        async with self._first_command:
            if home not in self._used_homes and not (home / ".prime" / "config.json").exists():
                yield
                self._used_homes.add(home)  # even if this prime writes no such file
                return
        yield


def installed_version(path: Path) -> str | None:
    """The version of `prime`, read from its installed metadata without starting it; None if the metadata is
    ambiguous."""
    if _python_of(path) is None:
        return None
    metadata = list(path.resolve().parent.parent.glob("lib/python*/site-packages/prime-*.dist-info"))
    return metadata[0].name.removeprefix("prime-").removesuffix(".dist-info") if len(metadata) == 1 else None


def _python_of(path: Path) -> str | None:
    """The Python that runs the script `prime`; None if `prime` is another kind of program."""
    if not sys.platform.startswith("linux"):
        return None  # forking after imports is not safe everywhere
    try:
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    python = first.removeprefix("#!").strip()
    fits = first.startswith("#!") and "from prime_cli.main import run" in rest and os.access(python, os.X_OK)
    return python if fits else None


def parse_json(text: str, doing: str) -> dict[str, Any]:
    """Parse a JSON object. Lines for people may precede it (`eval push`, `env secret create`). Raises PrimeRefusal."""
    start = 0 if text.lstrip().startswith("{") else text.find("\n{")
    try:
        value = json.loads(text[max(start, 0) :])
    except ValueError as error:
        raise refusals.refusal_of_kind(refusals.GARBLED, doing, refusals.clean_output(text)[:200]) from error
    if not isinstance(value, dict):
        raise refusals.refusal_of_kind(refusals.GARBLED, doing, refusals.clean_output(text)[:200])
    return value


def _is_new_enough(version: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version) >= Version(OLDEST_PRIME)
    except InvalidVersion:
        return False


def _uv_settings(variables: Mapping[str, str]) -> dict[str, str]:
    """The variable that points uv to the settings of the real HOME, for a scratch HOME."""
    config = Path(variables.get("XDG_CONFIG_HOME") or Path(variables["HOME"]) / ".config") / "uv" / "uv.toml"
    return {"UV_CONFIG_FILE": str(config)} if "UV_CONFIG_FILE" not in variables and config.is_file() else {}


def _with_uv(variables: dict[str, str], toolchain: PrimeFinder) -> dict[str, str]:
    """Append the server's `uv` to PATH if there is none, because prime builds wheels with the `uv` on PATH."""
    if process.which("uv", variables) is None:
        places = toolchain.programs("uv")
        if places:
            variables["PATH"] = os.pathsep.join(filter(None, (variables.get("PATH"), str(places[0].parent))))
    return variables
