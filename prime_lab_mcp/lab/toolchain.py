"""Where the programs that the server drives are: verifiers, datasets, prime.

They are in the server's own environment when it was installed with the extra `lab`, else in a toolchain environment
that `install` builds in the state directory.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from contextlib import suppress
from pathlib import Path

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.errors import InterpreterError
from prime_lab_mcp.lab.interpreter import (
    Interpreter,
    Interpreters,
    Say,
    installed_versions,
    name_of,
    own_scripts,
    read_ready,
    uv,
)
from prime_lab_mcp.lab.settings import Settings

PINS = ("verifiers==0.4.0", "prime==0.18.0", "datasets>=4,<6")
"""What the product is made for; the same pins as the extra `lab`."""
NAMES = ("verifiers", "datasets", "prime")


class Toolchain:
    """The driven packages, wherever they are."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def built(self) -> Interpreter | None:
        """The toolchain environment in the state directory, if it was built."""
        return read_ready(self._settings.interpreters / name_of(PINS, None, "toolchain-"))

    def python_for_datasets(self) -> Path | None:
        """A Python that has `datasets`."""
        if importlib.util.find_spec("datasets") is not None:
            return Path(sys.executable)
        built = self.built
        return built.python if built is not None else None

    def programs(self, name: str) -> tuple[Path, ...]:
        """Every place that has this program: beside the server, in the toolchain, on PATH; best first."""
        places = [own_scripts() / name, Path(sys.executable).parent / name]
        built = self.built
        if built is not None:
            places.append(built.python.parent / name)
        if name == "uv":
            with suppress(InterpreterError):
                places.append(uv())
        on_path = process.which(name)
        if on_path is not None:
            places.append(on_path)
        return tuple(dict.fromkeys(p for p in places if p.is_file()))

    def program(self, name: str) -> Path | None:
        """The first of `programs`."""
        return next(iter(self.programs(name)), None)

    async def versions(self) -> dict[str, str | None]:
        """The version of each driven package; None where it is missing."""
        found: dict[str, str | None] = dict.fromkeys(NAMES)
        for name in NAMES:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        built = self.built
        if built is not None and None in found.values():
            there = await installed_versions(built.python)
            found = {name: known or there.get(name) for name, known in found.items()}
        return found

    async def install(self, progress: Say | None = None) -> Interpreter:
        """Build the toolchain environment, unless it is there. Raises InterpreterError."""
        return await Interpreters(self._settings).build(PINS, prefix="toolchain-", progress=progress)
