"""What the static checks look at: a snapshot's files, its code as text, its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prime_lab_mcp.lab.checks.code import Code, read
from prime_lab_mcp.lab.checks.generation import Generation, admits, detect
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.snapshot import Snapshot

V0_VERSIONS = ("0.1.14", "0.2.1", "0.3.1")
"""Released versions of verifiers that have the v0 API, one of each line."""


@dataclass(frozen=True, slots=True)
class Package:
    """One environment package, not run."""

    snapshot: Snapshot
    code: Code
    generation: Generation
    pyproject: str
    readme: str | None
    allow_env: tuple[str, ...] = ()

    def line_of(self, text: str) -> str:
        """`pyproject.toml:LINE` of the first line with this text."""
        for number, line in enumerate(self.pyproject.splitlines(), 1):
            if text in line:
                return f"pyproject.toml:{number}"
        return "pyproject.toml"

    @property
    def only_v1(self) -> bool:
        """True when the package's requirement excludes every version that has the v0 API."""
        needed = self.snapshot.manifest.verifiers
        return needed is not None and not needed.url and not admits(needed, V0_VERSIONS)


Check = Callable[[Package], Iterator[Finding]]


def observe(snapshot: Snapshot, allow_env: tuple[str, ...] = ()) -> Package:
    """Read what the static checks need."""
    code = read(snapshot)
    return Package(
        snapshot,
        code,
        detect(snapshot, code),
        _text(snapshot, "pyproject.toml") or "",
        _text(snapshot, "README.md"),
        allow_env,
    )


def _text(snapshot: Snapshot, path: str) -> str | None:
    if path not in snapshot.files:
        return None
    return (snapshot.tree / path).read_text(encoding="utf-8", errors="replace")
