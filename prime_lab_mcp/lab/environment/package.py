"""The input of the static checks: a snapshot's files, its parsed code, and its metadata. No code of the package runs.

The checks examine only files that are part of the wheel. Before the wheel is built, these files are guessed: build
backends leave out folders such as tests, scripts and docs, unless the build configuration names them or the package
imports them. After the wheel is built, `read_package` is called again with the files of the wheel.
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
    """One environment package. Its code has been parsed but not run.

    `code` holds the Python files of the wheel, and `pyproject` and `readme` the texts of those files. `allow_env` are
    the environment variables that the user lets the server pass on to environments.
    """

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
        """Whether the package's requirement excludes all versions of verifiers that have the v0 API."""
        needed = self.snapshot.manifest.verifiers
        return needed is not None and not needed.url and not requirement_admits(needed, V0_RELEASES)


PackageCheck = Callable[[EnvironmentPackage], Iterator[Finding]]


def read_package(
    snapshot: Snapshot, allow_env: tuple[str, ...] = (), shipped: Collection[str] | None = None
) -> EnvironmentPackage:
    """Read the files that the static checks need. `shipped` are the paths in the wheel, if the wheel has been built."""
    every = read_source(snapshot)
    outside = set(snapshot.files) - set(shipped) if shipped is not None else unpackaged_files(snapshot, every)
    code = replace(every, files=tuple(f for f in every.files if f.path not in outside))
    return EnvironmentPackage(
        snapshot,
        code,
        detect_generation(snapshot, code),
        _text(snapshot, "pyproject.toml") or "",
        _text(snapshot, "README.md"),
        allow_env,
    )


_UNPACKAGED_FOLDERS = frozenset(
    {"tests", "test", "docs", "doc", "examples", "example", "scripts", "script", "notebooks", "benchmarks", "bench"}
)
"""Top-level folders of a project that neither hatchling nor setuptools includes in a wheel by default."""
_TEST_FILES = re.compile(r"(?:conftest|test_\w+|\w+_test|noxfile)\.py")


def unpackaged_files(snapshot: Snapshot, code: SourceCode) -> frozenset[str]:
    """Return the Python files that the wheel will not contain, such as tests and scripts.

    A folder counts as part of the wheel if the build configuration names it, if it has the package's name, or if the
    package imports it. If the build configuration includes everything, the result is empty.
    """
    tool = snapshot.manifest.table.get("tool")
    settings = json.dumps(tool, default=str) if isinstance(tool, Mapping) else ""
    if any(f'"{everything}"' in settings for everything in (".", "./", "*", "**", "/", "**/*", "*.py", "**/*.py")):
        return frozenset()
    candidates: dict[str, list[SourceFile]] = {}
    for file in code.files:
        top, _, rest = file.path.partition("/")
        if (rest and top in _UNPACKAGED_FOLDERS) or (not rest and _TEST_FILES.fullmatch(top)):
            candidates.setdefault(top, []).append(file)
    outside = {file.path for files in candidates.values() for file in files}
    imported = {i.module.split(".")[0] for f in code.files if f.path not in outside for i in f.imports()}
    own = snapshot.manifest.module
    return frozenset(
        file.path
        for top, files in candidates.items()
        if (name := top.removesuffix(".py")) != own and name not in imported and not _is_named(settings, top)
        for file in files
    )


def _is_named(configuration: str, top: str) -> bool:
    return re.search(rf'["/.]{re.escape(top)}["/*.]', configuration) is not None


def _text(snapshot: Snapshot, path: str) -> str | None:
    if path not in snapshot.files:
        return None
    return (snapshot.tree / path).read_text(encoding="utf-8", errors="replace")
