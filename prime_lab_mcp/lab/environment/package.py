"""The input of the static checks: a snapshot's files, its code as text, and its metadata. No code of the package
runs.

Only what the wheel holds is the package's code. Before the wheel is built, folders that no build takes by itself
(tests, scripts, docs) count as beside the package, unless the build configuration names them or the package imports
them; once the wheel is there, `read_package` is called again with the files that the wheel holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.versions import V0_RELEASES
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import (
    DetectedGeneration,
    SourceCode,
    SourceFile,
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
    beside: tuple[SourceFile, ...] = ()
    """Python files that are pushed beside the package (tests, scripts); no wheel holds them."""

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


def read_package(
    snapshot: Snapshot, allow_env: tuple[str, ...] = (), shipped: Collection[str] | None = None
) -> EnvironmentPackage:
    """Read the files that the static checks need. `shipped` are the paths that the wheel holds, where that is known."""
    every = read_source(snapshot)
    outside = set(snapshot.files) - set(shipped) if shipped is not None else beside_package(snapshot, every)
    code = replace(every, files=tuple(f for f in every.files if f.path not in outside))
    return EnvironmentPackage(
        snapshot,
        code,
        detect_generation(snapshot, code),
        _text(snapshot, "pyproject.toml") or "",
        _text(snapshot, "README.md"),
        allow_env,
        tuple(f for f in every.files if f.path in outside),
    )


_BESIDE = frozenset(
    {"tests", "test", "docs", "doc", "examples", "example", "scripts", "script", "notebooks", "benchmarks", "bench"}
)
"""Folders at the top of a project that neither hatchling nor setuptools takes into a wheel by itself."""
_TEST_FILES = re.compile(r"(?:conftest|test_\w+|\w+_test|noxfile)\.py")


def beside_package(snapshot: Snapshot, code: SourceCode) -> frozenset[str]:
    """Return the Python files that lie beside the package: tests, scripts and the like that no wheel holds.

    A folder that the build configuration names, that has the package's name, or that the package imports is no such
    folder. A build configuration that takes everything leaves nothing beside.
    """
    tool = snapshot.manifest.table.get("tool")
    settings = json.dumps(tool, default=str) if isinstance(tool, Mapping) else ""
    if any(f'"{everything}"' in settings for everything in (".", "./", "*", "**", "/", "**/*", "*.py", "**/*.py")):
        return frozenset()
    candidates: dict[str, list[SourceFile]] = {}
    for file in code.files:
        top, _, rest = file.path.partition("/")
        if (rest and top in _BESIDE) or (not rest and _TEST_FILES.fullmatch(top)):
            candidates.setdefault(top, []).append(file)
    outside = {file.path for files in candidates.values() for file in files}
    imported = {i.module.split(".")[0] for f in code.files if f.path not in outside for i in f.imports()}
    own = snapshot.manifest.module
    return frozenset(
        file.path
        for top, files in candidates.items()
        if (name := top.removesuffix(".py")) != own and name not in imported and not _names(settings, top)
        for file in files
    )


def _names(configuration: str, top: str) -> bool:
    return re.search(rf'["/.]{re.escape(top)}["/*.]', configuration) is not None


def _text(snapshot: Snapshot, path: str) -> str | None:
    if path not in snapshot.files:
        return None
    return (snapshot.tree / path).read_text(encoding="utf-8", errors="replace")
