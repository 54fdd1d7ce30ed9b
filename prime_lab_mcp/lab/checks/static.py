"""Checks of a package's files before its code runs: pyproject.toml, README.md, layout, what the push leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from prime_lab_mcp.lab.checks.code import Code, read
from prime_lab_mcp.lab.checks.generation import Generation, admits, detect
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.text import count, quote

BUILT_IN = frozenset({"harbor", "nemo_gym", "openenv", "textarena"})
"""Tasksets of verifiers 0.4.0 that win over an environment of the same name."""
_SECTIONS = {
    "dataset": r"data ?set|\bdata\b|\btasks?\b|source",
    "input and output format": r"format|input|output|prompt|answer",
    "reward": r"reward|scor|rubric|grad(?:e|ing)",
    "usage": r"usage|quick ?start|example|how to|running|run\b|install",
}
"""What the README must describe (seed, step 2), and how a heading or sentence says so."""
_IGNORED = frozenset({"uv.lock", "LICENSE", "Makefile", "poetry.lock", "LICENSE.txt", "LICENSE.md", "CHANGELOG.md"})


@dataclass(frozen=True, slots=True)
class Package:
    """What the static checks look at."""

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


def pyproject(package: Package) -> Iterator[Finding]:
    """What `prime env push` and the Hub read."""
    manifest = package.snapshot.manifest
    if manifest.problem is not None:
        missing = "pyproject.toml" not in package.snapshot.files
        yield Finding(
            "pyproject-missing" if missing else "pyproject-invalid",
            "blocker",
            "there is no pyproject.toml" if missing else f"pyproject.toml cannot be read: {quote(manifest.problem)}",
            "Write a pyproject.toml with [project] name, version, description and dependencies; create_environment "
            "makes one.",
            "pyproject.toml",
        )
        return
    for field, present in (("name", manifest.name), ("version", manifest.version)):
        if not present:
            yield Finding(
                f"project-{field}-missing",
                "blocker",
                f"[project] in pyproject.toml states no {field}",
                f'Add `{field} = "{"0.1.0" if field == "version" else package.snapshot.name}"` under [project].',
                "pyproject.toml",
            )
    if manifest.version and not _is_version(manifest.version):
        yield Finding(
            "project-version-invalid", "blocker", f"{quote(manifest.version, 40)} is no PEP 440 version",
            "Set [project].version to one such as 0.1.0.", package.line_of(manifest.version),
        )  # fmt: skip
    if not str(manifest.project.get("description") or "").strip():
        yield Finding(
            "project-description-missing", "warning", "[project] states no description; the Hub shows an empty line",
            "Add a one-sentence description under [project].", "pyproject.toml",
        )  # fmt: skip


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def requirement(package: Package) -> Iterator[Finding]:
    """The bound on verifiers decides which API is installed, and how the Hub labels the environment."""
    manifest, api = package.snapshot.manifest, package.generation.api
    if manifest.problem is not None:
        return
    needed = manifest.verifiers
    wanted = "verifiers>=0.1.14,<0.2" if api == "v0" else "verifiers>=0.4.0,<0.5"
    if needed is None:
        yield Finding(
            "verifiers-not-required", "blocker", "the dependencies in pyproject.toml do not name verifiers",
            f'Add "{wanted}" to [project] dependencies.', "pyproject.toml",
        )  # fmt: skip
        return
    where = package.line_of("verifiers" + str(needed.specifier)[:3]) if str(needed.specifier) else None
    where = where if where and ":" in where else package.line_of('"verifiers')
    if needed.url:
        yield Finding(
            "verifiers-unversioned", "warning", "verifiers is required by URL, so the Hub cannot tell its generation",
            f'Require a released version: "{wanted}".', where,
        )  # fmt: skip
    elif api == "v0":
        yield from _v0_bounds(needed, where)
    elif api == "v1":
        yield from _v1_bounds(needed, where)


def _v0_bounds(needed: Requirement, where: str) -> Iterator[Finding]:
    stated = str(needed).replace('"', "'")
    if admits(needed, ("0.4.0", "0.4.9", "0.9.0", "1.0.0")) and admits(needed, ("0.1.14", "0.2.1", "0.3.1")):
        yield Finding(
            "uncapped-verifiers", "blocker",
            f"{quote(stated, 80)} has no upper bound and installs verifiers 0.4, which removed the API this code uses",
            'Require "verifiers>=0.1.14,<0.2", or port to v1 with the prompt migrate_environment.', where,
        )  # fmt: skip
    elif admits(needed, ("0.2.1", "0.3.1")) and not admits(needed, ("0.1.10", "0.1.14")):
        yield Finding(
            "runtime-misread", "warning",
            f"the Hub reads {quote(stated, 80)} as v1, because the lower bound is 0.2.0 or newer; this is v0",
            'push_environment states the runtime, so nothing breaks; better require "verifiers>=0.1.14,<0.2".',
            where,
        )  # fmt: skip


def _v1_bounds(needed: Requirement, where: str) -> Iterator[Finding]:
    stated = str(needed).replace('"', "'")
    if not admits(needed, ("0.4.0", "0.4.1", "0.4.9")):
        yield Finding(
            "verifiers-outdated", "warning", f"{quote(stated, 80)} excludes verifiers 0.4, which training uses",
            'Require "verifiers>=0.4.0,<0.5".', where,
        )  # fmt: skip
    elif admits(needed, ("0.5.0", "0.9.0", "1.0.0")):
        yield Finding(
            "uncapped-verifiers", "warning",
            f"{quote(stated, 80)} has no upper bound; the API has changed incompatibly with every minor version so far",
            'Require "verifiers>=0.4.0,<0.5".', where,
        )  # fmt: skip
    if admits(needed, ("0.1.10", "0.1.14")):
        yield Finding(
            "runtime-misread", "warning",
            f"the Hub reads {quote(stated, 80)} as v0, because it states no lower bound of 0.2.0 or newer; this is v1",
            'Require "verifiers>=0.4.0,<0.5".', where,
        )  # fmt: skip


def readme(package: Package) -> Iterator[Finding]:
    """The Hub shows the README and nothing else of an environment."""
    if package.readme is None:
        yield Finding(
            "readme-missing", "blocker", "there is no README.md; the Hub will not display the environment without it",
            "Write README.md with the data set, input and output format, rewards and a usage example.", "README.md",
        )  # fmt: skip
        return
    missing = [name for name, words in _SECTIONS.items() if not re.search(words, package.readme, re.I)]
    if missing:
        yield Finding(
            "readme-incomplete", "warning", f"README.md does not describe: {', '.join(missing)}",
            "Add a short section for each.", "README.md",
        )  # fmt: skip


def layout(package: Package) -> Iterator[Finding]:
    """The module that both generations import is named after the project."""
    snapshot, code = package.snapshot, package.code
    for file in code.files:
        if file.problem is not None:
            yield Finding(
                "syntax-error", "blocker", f"{file.path} is no valid Python: {quote(file.problem, 160)}",
                "Correct the syntax.", file.path,
            )  # fmt: skip
    if not code.modules:
        yield Finding(
            "no-module", "blocker", "there is no Python file at the top level and no package folder",
            "Add the environment's module; create_environment makes a whole package.",
        )  # fmt: skip
    elif snapshot.manifest.module and snapshot.manifest.module not in code.modules:
        yield Finding(
            "module-name", "blocker",
            f"the project {quote(snapshot.manifest.name, 80)} needs a module {snapshot.manifest.module}; "
            f"the folder has {', '.join(sorted(code.modules)[:5])}",
            "Rename the module or [project].name so that they agree (hyphens become underscores).", "pyproject.toml",
        )  # fmt: skip
    if snapshot.manifest.module in BUILT_IN:
        yield Finding(
            "name-shadowed", "blocker",
            f"verifiers has a built-in taskset called {snapshot.manifest.module}, which would be loaded instead",
            "Choose another project and module name.", "pyproject.toml",
        )  # fmt: skip
    if code.files and package.generation.api is None and not any(f.problem for f in code.files):
        yield Finding(
            "unknown-generation", "blocker", f"this is no verifiers environment: {package.generation.reasons[0]}",
            "Export one Taskset subclass in __all__ (v1, see lab://guide/environments), or load_environment (v0).",
        )  # fmt: skip


def left_out(package: Package) -> Iterator[Finding]:
    """A data file that the push leaves out works here and fails on the Hub."""
    opened: list[tuple[str, str, str]] = []
    silent: list[str] = []
    for skipped in package.snapshot.left_out:
        name = PurePosixPath(skipped.path.rstrip("/")).name
        where = _mentions(package, name) if skipped.path.rstrip("/") != "outputs" else None
        if where is not None:
            opened.append((skipped.path, skipped.why, where))
        elif name not in _IGNORED:
            silent.append(skipped.path)
    for path, why, where in opened:
        yield Finding(
            "file-not-pushed", "blocker", f"the code names {quote(path, 120)}, which the push leaves out: {why}",
            "Move the file into the package's folder, one that .gitignore does not exclude, and open it there.",
            where,
        )  # fmt: skip
    if silent:
        shown = ", ".join(quote(path, 60) for path in silent[:5])
        yield Finding(
            "files-left-out", "info", f"the push leaves out {count(len(silent), 'file')}: {shown}",
            "Nothing to do unless the environment needs them.",
        )  # fmt: skip


def _mentions(package: Package, name: str) -> str | None:
    pattern = re.compile(rf"(?:^|[/\\]){re.escape(name)}$")
    for file in package.code.files:
        for text, line in file.strings():
            if len(text) < 300 and pattern.search(text.strip()):
                return file.at(line)
    return None


PACKAGE_CHECKS: tuple[Check, ...] = (pyproject, requirement, readme, layout, left_out)
