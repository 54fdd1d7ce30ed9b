"""The input of the static checks: a snapshot's files, its code as text, and its metadata. No code of the package
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.versions import V0_RELEASES
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import (
    DetectedGeneration,
    SourceCode,
    detect_generation,
    read_source,
    requirement_admits,
)


@dataclass(frozen=True, slots=True)
class EnvironmentPackage:
    """One environment package, whose code has not run."""

    snapshot: Snapshot
    code: SourceCode
    generation: DetectedGeneration
    pyproject: str
    readme: str | None
    allow_env: tuple[str, ...] = ()

    def line_of(self, text: str) -> str:
        """Return `pyproject.toml:LINE` of the first line that contains `text`."""
        for number, line in enumerate(self.pyproject.splitlines(), 1):
            if text in line:
                return f"pyproject.toml:{number}"
        return "pyproject.toml"

    @property
    def only_v1(self) -> bool:
        """True when the package's requirement excludes every version that has the v0 API."""
        needed = self.snapshot.manifest.verifiers
        return needed is not None and not needed.url and not requirement_admits(needed, V0_RELEASES)


PackageCheck = Callable[[EnvironmentPackage], Iterator[Finding]]


def read_package(snapshot: Snapshot, allow_env: tuple[str, ...] = ()) -> EnvironmentPackage:
    """Read the files that the static checks need."""
    code = read_source(snapshot)
    return EnvironmentPackage(
        snapshot,
        code,
        detect_generation(snapshot, code),
        _text(snapshot, "pyproject.toml") or "",
        _text(snapshot, "README.md"),
        allow_env,
    )


def _text(snapshot: Snapshot, path: str) -> str | None:
    if path not in snapshot.files:
        return None
    return (snapshot.tree / path).read_text(encoding="utf-8", errors="replace")
