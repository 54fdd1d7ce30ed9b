"""Checks of a package's files that run none of its code, and the ordered list of all static checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, run_checks
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.environment.build_code import BUILD_CHECKS
from prime_lab_mcp.lab.environment.code_hazards import DATA_CHECKS, HAZARD_CHECKS
from prime_lab_mcp.lab.environment.credentials import SECRET_CHECKS
from prime_lab_mcp.lab.environment.migration import migration_findings
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck
from prime_lab_mcp.lab.environment.requirements import REFERENCE_CHECKS, REQUIREMENT_CHECKS
from prime_lab_mcp.lab.environment.v0_rules import V0_CHECKS
from prime_lab_mcp.lab.environment.v1_rules import V1_CHECKS

_SECTIONS = {
    "dataset": r"data ?set|\bdata\b|\btasks?\b|source",
    "input and output format": r"format|input|output|prompt|answer",
    "reward": r"reward|scor|rubric|grad(?:e|ing)",
    "usage": r"usage|quick ?start|example|how to|running|run\b|install",
}
"""The topics that a README must describe. Each has a pattern that matches headings and sentences about the topic."""
_PLACEHOLDER = re.compile(
    r"<(?:[a-z -]*description|links?|(?:split )?sizes|source links|comma-separated tags|format instruction"
    r"|your [a-z -]+|train/eval counts|briefly list [^<>]+)>|\bTODO\b|\bFIXME\b",
    re.I,
)
BIG_FILE_BYTES = 5_000_000
"""Size in bytes. A package with a larger file is slow to push and to install."""
_IGNORED = frozenset({"uv.lock", "LICENSE", "Makefile", "poetry.lock", "LICENSE.txt", "LICENSE.md", "CHANGELOG.md"})


def pyproject(package: EnvironmentPackage) -> Iterator[Finding]:
    """Check the fields of pyproject.toml that `prime env push` and the Environments Hub read."""
    manifest = package.snapshot.manifest
    if manifest.problem is not None:
        missing = "pyproject.toml" not in package.snapshot.files
        yield Finding(
            "pyproject-missing" if missing else "pyproject-invalid",
            "blocker",
            "there is no pyproject.toml" if missing else f"pyproject.toml cannot be read: {quote(manifest.problem)}",
            Fix(
                "Write a pyproject.toml with [project] name, version, description and dependencies; ",
                NamedCall("create_environment"),
                " makes one.",
            ),
            "pyproject.toml",
        )
        return
    required: tuple[tuple[str, Code, str | None], ...] = (
        ("name", "project-name-missing", manifest.name),
        ("version", "project-version-missing", manifest.version),
    )
    for field, code, present in required:
        if not present:
            yield Finding(
                code,
                "blocker",
                f"[project] in pyproject.toml states no {field}",
                f'Add `{field} = "{"0.1.0" if field == "version" else package.snapshot.name}"` under [project].',
                "pyproject.toml",
            )
    if manifest.version and not _is_version(manifest.version):
        yield Finding(
            "project-version-invalid",
            "blocker",
            f"{quote(manifest.version, 40)} is no PEP 440 version",
            "Set [project].version to one such as 0.1.0.",
            package.line_of(manifest.version),
        )
    if not str(manifest.project.get("description") or "").strip():
        yield Finding(
            "project-description-missing",
            "warning",
            "[project] states no description; the Hub shows an empty line",
            "Add a one-sentence description under [project].",
            "pyproject.toml",
        )


_EXAMPLES = {"requires-python": 'requires-python = ">=3.11"', "tags": 'tags = ["..."]'}


def metadata(package: EnvironmentPackage) -> Iterator[Finding]:
    """Check the metadata that the Hub's search and Python's installers use."""
    manifest = package.snapshot.manifest
    if manifest.problem is not None:
        return
    system = manifest.table.get("build-system")
    backend = str(system.get("build-backend", "")) if isinstance(system, dict) else ""
    # `tags` is not a standard key of [project]. hatchling passes it on, and setuptools refuses it.
    expected = ["requires-python", *(["tags"] if backend.startswith("hatchling") else [])]
    missing = [field for field in expected if not manifest.project.get(field)]
    if missing:
        yield Finding(
            "metadata-incomplete",
            "info",
            f"[project] states no {' and no '.join(missing)}",
            f"Add {' and '.join(_EXAMPLES[field] for field in missing)}.",
            "pyproject.toml",
        )
    bound = manifest.project.get("requires-python")
    if isinstance(bound, str) and bound:
        try:
            allowed = SpecifierSet(bound)
        except InvalidSpecifier:
            yield Finding(
                "requires-python",
                "blocker",
                f"requires-python {quote(bound, 40)} cannot be read",
                'Write requires-python = ">=3.11".',
                package.line_of("requires-python"),
            )
            return
        if not any(allowed.contains(f"3.{minor}.9") for minor in (11, 12, 13)):
            yield Finding(
                "requires-python",
                "blocker",
                f"requires-python {quote(bound, 40)} excludes Python 3.11 to 3.13",
                'Write requires-python = ">=3.11".',
                package.line_of("requires-python"),
            )


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def readme(package: EnvironmentPackage) -> Iterator[Finding]:
    """Check the README, the only part of an environment that the Hub shows."""
    if package.readme is None and (other := _other_readme(package)) is not None:
        yield Finding(
            "readme-not-pushed",
            "warning",
            f"the README is called {quote(other, 60)}; prime pushes README.md only, so the Hub shows none",
            f"Rename {quote(other, 60)} to README.md (also in [project] readme).",
            other,
        )
        return
    if package.readme is None:
        yield Finding(
            "readme-missing",
            "blocker",
            "there is no README.md; the Hub will not display the environment without it",
            "Write README.md with the data set, input and output format, rewards and a usage example.",
            "README.md",
        )
        return
    missing = [name for name, words in _SECTIONS.items() if not re.search(words, package.readme, re.I)]
    if missing:
        yield Finding(
            "readme-incomplete",
            "warning",
            f"README.md does not describe: {', '.join(missing)}",
            "Add a short section for each.",
            "README.md",
        )
    for number, line in enumerate(package.readme.splitlines(), 1):
        if match := _PLACEHOLDER.search(line):
            yield Finding(
                "readme-placeholder",
                "warning",
                f"README.md still has the placeholder {quote(match[0], 60)}",
                "Fill it in; the Hub shows the README as it is.",
                f"README.md:{number}",
            )
            break


_README = re.compile(r"readme(?:\.(?:md|markdown|mdown|rst|txt))?", re.I)


def _other_readme(package: EnvironmentPackage) -> str | None:
    """Return a top-level README whose name differs from README.md, so that the push leaves it out."""
    return next((s.path for s in package.snapshot.left_out if _README.fullmatch(s.path)), None)


def big_files(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about big files. Every installation downloads the wheel, and every push uploads it twice."""
    sizes = {p: (package.snapshot.tree / p).stat().st_size for p in package.snapshot.files}
    big = {p: size for p, size in sorted(sizes.items(), key=lambda item: -item[1]) if size > BIG_FILE_BYTES}
    if big:
        listed = ", ".join(f"{quote(p, 80)} ({size / 1e6:.0f} MB)" for p, size in list(big.items())[:3])
        yield Finding(
            "big-file",
            "warning",
            f"{count(len(big), 'file')} above {BIG_FILE_BYTES / 1e6:.0f} MB would be pushed: {listed}",
            "Put large data on a dataset hub and load it with a pinned revision.",
            next(iter(big)),
        )


_DATA_ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet", ".md", ".yaml", ".yml", ".toml")


def empty_files(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about files without content, such as sample data whose rows were removed."""
    empty = [
        path
        for path in sorted(package.snapshot.files)
        if path.endswith(_DATA_ENDINGS) and (package.snapshot.tree / path).stat().st_size <= 1
    ]
    if empty:
        listed = ", ".join(quote(path, 80) for path in empty[:4])
        yield Finding(
            "empty-file",
            "warning",
            f"{count(len(empty), 'file')} without content would be pushed: {listed}",
            "Remove them, or write what belongs there.",
            empty[0],
        )


def layout(package: EnvironmentPackage) -> Iterator[Finding]:
    """Check that the package has an importable module with the project's name, which v0 and v1 both import."""
    snapshot, code = package.snapshot, package.code
    for file in code.files:
        if file.problem is not None:
            yield Finding(
                "syntax-error",
                "blocker",
                f"{file.path} cannot be read as Python: {quote(file.problem, 160)}",
                "Correct the syntax, split what nests too deeply, or keep the data of a long file in a data file.",
                file.path,
            )
    if not code.modules:
        yield Finding(
            "no-module",
            "blocker",
            "there is no Python file at the top level and no package folder",
            Fix("Add the environment's module; ", NamedCall("create_environment"), " makes a whole package."),
        )
    elif snapshot.manifest.module and snapshot.manifest.module not in code.modules:
        yield Finding(
            "module-name",
            "blocker",
            f"the project {quote(snapshot.manifest.name, 80)} needs a module {snapshot.manifest.module}; "
            f"the folder has {', '.join(sorted(code.modules)[:5])}",
            "Rename the module or [project].name so that they agree (hyphens become underscores).",
            "pyproject.toml",
        )
    elif snapshot.manifest.module and not _importable(snapshot.manifest.module, snapshot.files):
        yield Finding(
            "no-module",
            "blocker",
            f"the folder {snapshot.manifest.module} has no __init__.py, so it is no package",
            "Add __init__.py; in v1 it names the Taskset in __all__.",
            f"{snapshot.manifest.module}/",
        )
    if code.files and package.generation.api is None and not any(f.problem for f in code.files):
        harness = next(_harnesses(package), None)
        yield Finding(
            "unknown-generation",
            "blocker",
            f"this package holds a harness ({quote(harness, 60)}) and no taskset, so there is nothing to test or train"
            if harness is not None
            else f"this is no verifiers environment: {package.generation.reasons[0]}",
            "Check an environment that names this harness (harness.id of its agent)."
            if harness is not None
            else "Export one Taskset subclass in __all__ (v1, see lab://guide/environments), or load_environment (v0).",
        )


def _harnesses(package: EnvironmentPackage) -> Iterator[str]:
    """Yield the names of the package's classes that derive from verifiers' Harness."""
    for file in package.code.files:
        for node in ast.walk(file.tree) if file.tree is not None else ():
            if not isinstance(node, ast.ClassDef):
                continue
            for base in node.bases:
                named = base.value if isinstance(base, ast.Subscript) else base
                if ast.unparse(named).rpartition(".")[2] == "Harness":
                    yield node.name


def _importable(module: str, files: Iterable[str]) -> bool:
    places = {f"{root}{module}{end}" for root in ("", "src/") for end in (".py", "/__init__.py")}
    return not places.isdisjoint(files)


def left_out(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report files that the push leaves out. An environment that needs one works here and fails on the Hub."""
    opened: list[tuple[str, str, str]] = []
    silent: list[str] = []
    for skipped in package.snapshot.left_out:
        name = PurePosixPath(skipped.path.rstrip("/")).name
        where = _mentions(package, name) if skipped.path.rstrip("/") != "outputs" else None
        if where is not None:
            opened.append((skipped.path, skipped.why, where))
        elif name not in _IGNORED and not _README.fullmatch(skipped.path):
            silent.append(skipped.path)
    for path, why, where in opened:
        yield Finding(
            "file-not-pushed",
            "blocker",
            f"the code names {quote(path, 120)}, which the push leaves out: {why}",
            "Move the file into the package's folder, one that .gitignore does not exclude, and open it there.",
            where,
        )
    if silent:
        listed = ", ".join(quote(path, 60) for path in silent[:5])
        yield Finding(
            "files-left-out",
            "info",
            f"the push leaves out {count(len(silent), 'file')}: {listed}",
            "Nothing to do unless the environment needs them.",
        )


def _mentions(package: EnvironmentPackage, name: str) -> str | None:
    pattern = re.compile(rf"(?:^|[/\\]){re.escape(name)}$")
    for file in package.code.files:
        for text, line in file.strings():
            if len(text) < 300 and pattern.search(text.strip()):
                return file.at(line)
    return None


def own_files(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report code that may read the package's README or metadata. These files then count as source code."""
    where = package.snapshot.own_files_reader
    if where is not None:
        place, _, reason = where.partition(": ")
        yield Finding(
            "readme-is-source",
            "info",
            f"an edit of the README or another version needs a new proof: {quote(reason, 200)}",
            "Nothing to do; or keep what the code reads in a data file of the package.",
            place,
        )


PACKAGE_CHECKS: tuple[PackageCheck, ...] = (
    pyproject,
    metadata,
    readme,
    layout,
    left_out,
    big_files,
    empty_files,
    own_files,
)


STATIC_CHECKS: tuple[PackageCheck, ...] = (
    *PACKAGE_CHECKS,
    *BUILD_CHECKS,
    *REFERENCE_CHECKS,
    *REQUIREMENT_CHECKS,
    *SECRET_CHECKS,
    migration_findings,
    *V1_CHECKS,
    *V0_CHECKS,
    *DATA_CHECKS,
    *HAZARD_CHECKS,
)


def static_findings(package: EnvironmentPackage) -> list[Finding]:
    """Run all static checks and return their findings."""
    return run_checks(STATIC_CHECKS, package)
