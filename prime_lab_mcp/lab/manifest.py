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

_VERSION_LINE = re.compile(r"""^(\s*version\s*=\s*)(["'])([^"'\n]*)\2""")
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
    """Change [project].version and not one other byte (the CLI's own bump rewrites every `version =`)."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    section = ""
    for number, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped.split("#")[0].strip()
        elif section == "[project]" and (found := _VERSION_LINE.match(line)):
            lines[number] = f"{found[1]}{found[2]}{version}{found[2]}{line[found.end() :]}"
            write_atomic(path, "".join(lines))
            return
    raise BadInput(
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
