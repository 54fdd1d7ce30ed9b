"""Reads the pyproject.toml of an environment, and can change its version without changing anything else.

An unreadable file is not an error here: `Manifest.problem` states the reason, and the checks report it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.syntax import MOST_NESTED, nests_too_deeply

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_VERSION = re.compile(r"""((?:\bproject\s*\.\s*)?["']?\bversion["']?\s*=\s*)(\"{3}|'{3}|"|')([^"'\r\n]*)\2""")
PUSHED_README = "README.md"
"""The only top-level file, apart from pyproject.toml and *.py, that prime 0.18.0 pushes."""
_TOO_DEEP = f"its tables nest deeper than {MOST_NESTED} levels"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A parsed pyproject.toml. If the file cannot be read, `problem` says why and everything else is empty."""

    table: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @property
    def project(self) -> Mapping[str, Any]:
        project = self.table.get("project")
        return project if isinstance(project, Mapping) else {}

    @property
    def name(self) -> str | None:
        name = self.project.get("name")
        return name if isinstance(name, str) and name else None

    @property
    def version(self) -> str | None:
        version = self.project.get("version")
        return version if isinstance(version, str) and version else None

    @property
    def module(self) -> str | None:
        """The import name of the package, which v0 and v1 both derive from the project name."""
        return self.name.replace("-", "_").lower() if self.name else None

    @property
    def requirements(self) -> tuple[str, ...]:
        dependencies = self.project.get("dependencies")
        return tuple(r for r in dependencies if isinstance(r, str)) if isinstance(dependencies, list) else ()

    @property
    def verifiers(self) -> Requirement | None:
        """The package's requirement on verifiers; None if there is none or it cannot be parsed."""
        from packaging.requirements import InvalidRequirement, Requirement

        for text in self.requirements:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            if requirement.name.lower() == "verifiers":
                return requirement
        return None

    @property
    def readme(self) -> str | None:
        """`README.md`, if the project names this file as its README; None for any other file.

        Any other file that the project names as its README may be code or data of the package.
        """
        return PUSHED_README if self.stated_readme == PUSHED_README else None

    @property
    def stated_readme(self) -> str | None:
        """The path of the README as the project states it; None if the project names no README."""
        stated = self.project.get("readme")
        if isinstance(stated, Mapping):
            stated = stated.get("file")
        return stated.removeprefix("./") if isinstance(stated, str) else None

    def sourced(self) -> dict[str, Any]:
        """The table without the project's version, which the source fingerprint does not cover."""
        table = dict(self.table)
        if self.project:
            table["project"] = {k: v for k, v in self.project.items() if k != "version"}
        return table


@lru_cache(maxsize=64)
def parse_manifest(raw: bytes) -> Manifest:
    """Parse the bytes of a pyproject.toml. Never raises; see `Manifest.problem`.

    The last results are kept, because every call reads the same few files. No caller changes a table.
    """
    try:
        table = tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Manifest(problem=f"it is not UTF-8 (byte {error.start})")
    except tomllib.TOMLDecodeError as error:
        return Manifest(problem=f"it is not valid TOML: {error}")
    except RecursionError:
        return Manifest(problem=_TOO_DEEP)
    return Manifest(problem=_TOO_DEEP) if nests_too_deeply(table) else Manifest(table)


def next_version(current: str, bump: str) -> str:
    """Return `current` with its major, minor or patch part raised by one. Raises BadInput for an invalid version."""
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
    """Change [project].version and no other byte. The CLI's own version bump rewrites every `version =`.

    Tries each text that looks like a version, and takes the one whose change alters nothing but [project].version in
    the parsed file. Raises BadInput if the file cannot be read or has no literal version.
    """
    raw = path.read_bytes()
    manifest = parse_manifest(raw)
    if manifest.problem is not None or manifest.version is None:
        raise no_version_error(manifest)
    expected = {**manifest.table, "project": {**manifest.project, "version": version}}
    text = raw.decode("utf-8")
    for match in _VERSION.finditer(text):
        changed = f"{text[: match.start(3)]}{version}{text[match.end(3) :]}"
        if parse_manifest(changed.encode()).table == expected:
            write_atomic(path, changed)
            return
    raise BadInput(
        "the version of pyproject.toml is written in a way that cannot be changed without touching anything else",
        fix=f'Write it as one line under [project]: version = "{version}".',
        code="no-version",
    )


def no_version_error(manifest: Manifest) -> BadInput:
    """The error for a manifest whose version cannot be read or raised."""
    if manifest.problem is not None:
        return BadInput(
            f"pyproject.toml cannot be read: {manifest.problem}", fix="Mend its syntax.", code="pyproject-invalid"
        )
    dynamic = manifest.project.get("dynamic")
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
    """Replace a file in one step and keep its mode. After a crash the old file is unchanged."""
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
