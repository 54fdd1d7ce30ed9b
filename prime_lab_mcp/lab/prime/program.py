"""Finding the user's `prime`, the variables it runs with, and one run of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from packaging.version import InvalidVersion, Version

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.errors import ProcessError
from prime_lab_mcp.lab.prime import refusals
from prime_lab_mcp.lab.prime.answers import version_of
from prime_lab_mcp.lab.settings import Settings

_JSON_LIMIT = 32_000_000
_PLATFORM_VARIABLE = re.compile(r"^PRIME_(?!LAB_|DISABLE_VERSION_CHECK$)[A-Z0-9_]+$")
_LOOPBACK = "127.0.0.1,localhost,::1"


class Programs(Protocol):
    """Where programs are (lab/toolchain.py)."""

    def programs(self, name: str) -> tuple[Path, ...]:
        """Every place that has this program, best first."""


class Program:
    """One `prime`: found once, then run. In rehearsal it sees the loopback platform and a scratch HOME only."""

    def __init__(
        self,
        settings: Settings,
        toolchain: Programs,
        platform_variables: Callable[[], Awaitable[Mapping[str, str]]],
    ) -> None:
        self._settings = settings
        self._toolchain = toolchain
        self._platform_variables = platform_variables
        self._found: tuple[Path, str] | None = None

    async def find(self) -> tuple[Path, str]:
        """Path and version of the first `prime` that is new enough. Raises Refusal (prime-missing, prime-too-old)."""
        if self._found is not None and self._found[0].is_file():
            return self._found
        oldest: str | None = None
        for path in self._toolchain.programs("prime"):
            done = await self._start([str(path), "--version"], 30.0, {}, None, "asking prime for its version")
            version = version_of(done.stdout) if done.returncode == 0 else None
            if version is not None and _new_enough(version):
                self._found = (path, version)
                return self._found
            oldest = oldest or version or "unknown"
        if oldest is None:
            raise refusals.of(refusals.MISSING, "looking for prime")
        raise refusals.of(refusals.TOO_OLD, "looking for prime", f"version {oldest}")

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
        """Standard output of a verb that succeeded. Raises Refusal."""
        done = await self.completed(arguments, timeout=timeout, doing=doing, cwd=cwd, extra=extra, limit=limit)
        if done.returncode != 0:
            raise refusals.refusal(done, doing)
        return done.stdout

    async def json(self, arguments: Sequence[str], *, timeout: float, doing: str) -> dict[str, Any]:
        """The JSON object that a verb printed, `-o json` or as it always does. Raises Refusal."""
        return parse(await self.text(arguments, timeout=timeout, doing=doing), doing)

    async def completed(
        self,
        arguments: Sequence[str],
        *,
        timeout: float,
        doing: str,
        cwd: Path | None = None,
        extra: Mapping[str, str] | None = None,
        limit: int = _JSON_LIMIT,
    ) -> process.Completed:
        """One run to its end, whatever its exit code. Raises Refusal when it does not end."""
        path, _ = await self.find()
        return await self._start([str(path), *arguments], timeout, dict(extra or {}), cwd, doing, limit)

    async def variables(self) -> dict[str, str]:
        """What a child sees: the user's PRIME_* variables, or in rehearsal those of the loopback platform alone."""
        kept = process.installer_environment()
        if "UV_PYTHON_DOWNLOADS" not in os.environ:
            del kept["UV_PYTHON_DOWNLOADS"]  # the user's own prime may fetch a Python to build with, as always
        if self._settings.rehearsal:
            kept.update(_keeping_caches(kept))
            kept["HOME"] = str(self._settings.rehearsal_dir / "home")
            kept.update(await self._platform_variables())
            for name in ("NO_PROXY", "no_proxy"):
                kept[name] = ",".join(filter(None, (kept.get(name), _LOOPBACK)))
        else:
            kept.update({k: v for k, v in os.environ.items() if _PLATFORM_VARIABLE.match(k)})
        kept |= {"PRIME_DISABLE_VERSION_CHECK": "1", "NO_COLOR": "1", "COLUMNS": "1000", "TERM": "dumb"}
        Path(kept["HOME"]).mkdir(parents=True, exist_ok=True)
        return _with_uv(kept, self._toolchain)

    def _scratch(self) -> Path:
        """An empty folder to run in: prime looks at `.prime` and `environments` where it stands."""
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
    ) -> process.Completed:
        env = await self.variables() | dict(extra)
        try:
            return await process.run(argv, cwd=cwd or self._scratch(), env=env, timeout=timeout, output_limit=limit)
        except ProcessError as error:
            if error.code == "process-timeout":
                raise refusals.of(refusals.SLOW, doing, f"no end after {timeout:g} seconds") from error
            if error.code == "program-missing":
                raise refusals.of(refusals.MISSING, doing) from error
            raise refusals.of(refusals.GARBLED, doing, error.message) from error


def parse(text: str, doing: str) -> dict[str, Any]:
    """A JSON object, also where lines for people stand before it (`eval push`, `env secret create`)."""
    start = 0 if text.lstrip().startswith("{") else text.find("\n{")
    try:
        found = json.loads(text[max(start, 0) :])
    except ValueError as error:
        raise refusals.of(refusals.GARBLED, doing, refusals.clean(text)[:200]) from error
    if not isinstance(found, dict):
        raise refusals.of(refusals.GARBLED, doing, refusals.clean(text)[:200])
    return found


def _new_enough(version: str) -> bool:
    try:
        return Version(version) >= Version(refusals.OLDEST)
    except InvalidVersion:
        return False


def _keeping_caches(kept: Mapping[str, str]) -> dict[str, str]:
    """uv's cache and settings of the real HOME, so that a scratch one does not download everything again."""
    home = Path(kept["HOME"])
    found: dict[str, str] = {}
    cache = Path(kept.get("XDG_CACHE_HOME") or home / ".cache") / "uv"
    if "UV_CACHE_DIR" not in kept and cache.is_dir():
        found["UV_CACHE_DIR"] = str(cache)
    config = Path(kept.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    if "UV_CONFIG_FILE" not in kept and config.is_file():
        found["UV_CONFIG_FILE"] = str(config)
    return found


def _with_uv(kept: dict[str, str], toolchain: Programs) -> dict[str, str]:
    """prime builds wheels with the `uv` on PATH; where there is none, the server's own is put last."""
    if process.which("uv", kept) is None:
        places = toolchain.programs("uv")
        if places:
            kept["PATH"] = os.pathsep.join(filter(None, (kept.get("PATH"), str(places[0].parent))))
    return kept
