"""pyproject.toml of an environment: read leniently (a broken one is a finding, not a crash), edited exactly."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.errors import BadInput

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_VERSION = re.compile(r"""((?:\bproject\s*\.\s*)?["']?\bversion["']?\s*=\s*)(\"{3}|'{3}|"|')([^"'\r\n]*)\2""")
_UNSOURCED = ("version", "description", "readme", "tags")
"""Keys of [project] that no evidence about the source depends on (DESIGN section 3)."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """`problem` says why the file could not be read; then everything else is empty."""

    table: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @property
    def project(self) -> Mapping[str, Any]:
        found = self.table.get("project")
        return found if isinstance(found, Mapping) else {}

    @property
    def name(self) -> str | None:
        found = self.project.get("name")
        return found if isinstance(found, str) and found else None

    @property
    def version(self) -> str | None:
        found = self.project.get("version")
        return found if isinstance(found, str) and found else None

    @property
    def module(self) -> str | None:
        """The import name that both generations derive from the project's name."""
        return self.name.replace("-", "_").lower() if self.name else None

    @property
    def requirements(self) -> tuple[str, ...]:
        found = self.project.get("dependencies")
        return tuple(r for r in found if isinstance(r, str)) if isinstance(found, list) else ()

    @property
    def verifiers(self) -> Requirement | None:
        """The package's own requirement on verifiers, if it states a readable one."""
        from packaging.requirements import InvalidRequirement, Requirement

        for text in self.requirements:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            if requirement.name.lower() == "verifiers":
                return requirement
        return None

    def sourced(self) -> dict[str, Any]:
        """The table less what evidence about the source does not depend on."""
        kept = dict(self.table)
        if self.project:
            kept["project"] = {k: v for k, v in self.project.items() if k not in _UNSOURCED}
        return kept


def parse(raw: bytes) -> Manifest:
    """Read the bytes of a pyproject.toml."""
    try:
        return Manifest(tomllib.loads(raw.decode("utf-8")))
    except UnicodeDecodeError as error:
        return Manifest(problem=f"it is not UTF-8 (byte {error.start})")
    except tomllib.TOMLDecodeError as error:
        return Manifest(problem=f"it is not valid TOML: {error}")


def next_version(current: str, bump: str) -> str:
    """`current` with its major, minor or patch part raised by one."""
    from packaging.version import InvalidVersion, Version

    try:
        release = [*Version(current).release, 0, 0]
    except InvalidVersion as error:
        raise BadInput(
            f"version {current!r} is no PEP 440 version",
            fix="Set [project].version to one such as 0.1.0.",
        ) from error
    part = {"major": 0, "minor": 1, "patch": 2}[bump]
    raised = [*release[:part], release[part] + 1, *([0] * (2 - part))]
    return ".".join(str(n) for n in raised)


def set_version(path: Path, version: str) -> None:
    """Change [project].version and not one other byte (the CLI's own bump rewrites every `version =`).

    Raises BadInput where the file cannot be read or states no literal version. Of everything that looks like a version
    the one is taken whose change makes the parsed file differ in [project].version and in nothing else.
    """
    raw = path.read_bytes()
    found = parse(raw)
    if found.problem is not None or found.version is None:
        raise no_version(found)
    wanted = {**found.table, "project": {**found.project, "version": version}}
    text = raw.decode("utf-8")
    for place in _VERSION.finditer(text):
        changed = f"{text[: place.start(3)]}{version}{text[place.end(3) :]}"
        if parse(changed.encode()).table == wanted:
            write_atomic(path, changed)
            return
    raise BadInput(
        "the version of pyproject.toml is written in a way that cannot be changed without touching anything else",
        fix=f'Write it as one line under [project]: version = "{version}".',
        code="no-version",
    )


def no_version(found: Manifest) -> BadInput:
    """Why a version cannot be read or raised, and what to write instead."""
    if found.problem is not None:
        return BadInput(
            f"pyproject.toml cannot be read: {found.problem}", fix="Mend its syntax.", code="pyproject-invalid"
        )
    dynamic = found.project.get("dynamic")
    if isinstance(dynamic, list) and "version" in dynamic:
        return BadInput(
            "pyproject.toml takes its version from elsewhere (it is listed in [project].dynamic)",
            fix='Remove "version" from dynamic and write `version = "0.1.0"` under [project]: the Hub goes '
            "by what the file states.",
            code="no-version",
        )
    return BadInput(
        "pyproject.toml states no literal version under [project]",
        fix='Add `version = "0.1.0"` under [project].',
        code="no-version",
    )


def write_atomic(path: Path, text: str) -> None:
    """Replace a file in one step, keeping its mode; a crash leaves the old one whole."""
    import os
    import tempfile

    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as sink:
            sink.write(text)
            sink.flush()
            os.fsync(sink.fileno())
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
