"""Finds the packages that the server needs as programs: verifiers, datasets and prime.

The packages are in the server's own Python environment if it was installed with the extra `lab`. Otherwise they are in
a toolchain environment that `install` builds in the state directory.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from contextlib import suppress
from pathlib import Path

from prime_lab_mcp.lab.base import process, versions
from prime_lab_mcp.lab.base.errors import InterpreterError
from prime_lab_mcp.lab.base.report import Say
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.interpreter import (
    Interpreter,
    Interpreters,
    installed_versions,
    interpreter_name,
    own_scripts,
    read_interpreter,
    uv_program,
)

TOOLCHAIN_NAMES = ("verifiers", "datasets", "prime")


class Toolchain:
    """Finds and installs verifiers, datasets and prime."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def built(self) -> Interpreter | None:
        """The toolchain environment in the state directory; None if it was not built."""
        return read_interpreter(self._settings.interpreters / interpreter_name(versions.TOOLCHAIN, None, "toolchain-"))

    def python_for_datasets(self) -> Path | None:
        """A Python that has the package `datasets`, or None."""
        if importlib.util.find_spec("datasets") is not None:
            return Path(sys.executable)
        built = self.built
        return built.python if built is not None else None

    def programs(self, name: str) -> tuple[Path, ...]:
        """Every path of this program, in order of preference: beside the server, in the toolchain, on PATH."""
        places = [own_scripts() / name, Path(sys.executable).parent / name]
        built = self.built
        if built is not None:
            places.append(built.python.parent / name)
        if name == "uv":
            with suppress(InterpreterError):
                places.append(uv_program())
        on_path = process.which(name)
        if on_path is not None:
            places.append(on_path)
        return tuple(dict.fromkeys(p for p in places if p.is_file()))

    def program(self, name: str) -> Path | None:
        """The preferred path of this program, or None."""
        return next(iter(self.programs(name)), None)

    async def versions(self) -> dict[str, str | None]:
        """The version of each of these packages; None for a missing one."""
        by_name: dict[str, str | None] = dict.fromkeys(TOOLCHAIN_NAMES)
        for name in TOOLCHAIN_NAMES:
            try:
                by_name[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        built = self.built
        if built is not None and None in by_name.values():
            in_toolchain = await installed_versions(built.python)
            by_name = {name: known or in_toolchain.get(name) for name, known in by_name.items()}
        return by_name

    async def install(self, progress: Say | None = None) -> Interpreter:
        """Build the toolchain environment if it does not exist. Raises InterpreterError."""
        return await Interpreters(self._settings).build(versions.TOOLCHAIN, prefix="toolchain-", progress=progress)
