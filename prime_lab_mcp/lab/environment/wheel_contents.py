"""Compares a wheel with the snapshot that it was built from: missing files, changed files, and entry points."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from prime_lab_mcp.lab.base.report import Finding, Severity
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.environment.build_code import build_reasons
from prime_lab_mcp.lab.environment.package import EnvironmentPackage
from prime_lab_mcp.lab.environment.requirements import GENERIC_NAMES, foreign_modules
from prime_lab_mcp.lab.environment.wheel import BUILD_SCRIPTS, UnpackedWheel
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import imported_modules


def shipped_code(snapshot: Snapshot, wheel: UnpackedWheel) -> frozenset[str]:
    """Return the Python files of the snapshot that are part of the wheel, at any path, and its build scripts."""
    built = set(wheel.files.values())
    return frozenset(
        path
        for path, digest in snapshot.files.items()
        if path.endswith(".py")
        and (path.removeprefix("src/") in wheel.files or digest in built or path in BUILD_SCRIPTS)
    )


_METADATA_FILES = frozenset({"pyproject.toml", "README.md"})
_LISTING_FUNCTIONS = frozenset({"glob", "rglob", "iterdir", "listdir", "scandir", "walk"})
_NOT_SHIPPED = frozenset({"tests", "test", "docs", "doc", "examples", "scripts", "notebooks", "assets", "outputs"})


def missing_from_wheel(package: EnvironmentPackage, wheel: UnpackedWheel) -> Iterator[Finding]:
    """Report modules and files of the package that the wheel lacks.

    The finding is a blocker for files that the environment's code uses.
    """
    module = package.snapshot.manifest.module or ""
    if not any(p == f"{module}.py" or p.startswith((f"{module}/", f"{module}.")) for p in wheel.files):
        contents = ", ".join(quote(top, 60) for top in sorted({p.split("/")[0] for p in wheel.files})[:5])
        yield Finding(
            "wheel-lacks-module",
            "blocker",
            f"the wheel does not hold the module {module}; it holds {contents or 'nothing'}",
            f'Name it in [tool.hatch.build.targets.wheel] (packages = ["{module}"], or only-include), '
            "or in what your build backend reads.",
            "pyproject.toml",
        )
        return
    needed: list[tuple[str, str | None]] = []
    unused: list[tuple[str, str | None]] = []
    for path, where in _missing(package, wheel):
        (needed if where is not None else unused).append((path, where))
    if needed:
        listed = ", ".join(quote(path, 80) for path, _ in needed[:4])
        yield Finding(
            "wheel-lacks-file",
            "blocker",
            f"the wheel leaves out {count(len(needed), 'file')} that the code uses: {listed}",
            "Include them: [tool.hatch.build.targets.wheel] packages = [...] takes a package with all its files; an "
            "`include` list takes only what it names.",
            needed[0][1],
        )
    generic = sorted({p.split("/")[0].removesuffix(".py") for p in wheel.files} & GENERIC_NAMES - {module})
    if generic:
        yield Finding(
            "wheel-top-level",
            "warning",
            f"the wheel installs {', '.join(generic[:4])} at the top level, where the same name of another environment "
            "overwrites it",
            f"Move it into the package: {module}/{generic[0]}.",
            "pyproject.toml",
        )
    if unused:
        listed = ", ".join(quote(path, 80) for path, _ in unused[:4])
        yield Finding(
            "wheel-lacks-file",
            "info",
            f"the wheel leaves out {count(len(unused), 'file')} of the package that nothing seems to use: {listed}",
            "Nothing to do unless the environment needs them.",
        )


_STARTUP_MODULES = frozenset({"sitecustomize.py", "usercustomize.py"})
_DATA_FOLDER = re.compile(r"[^/]+\.data/")
_SHARED = re.compile(r"[^/]+\.data/data/share/")
_BINARY = (".so", ".pyd", ".dll", ".dylib", ".pyc")


def untested_files(package: EnvironmentPackage, wheel: UnpackedWheel) -> Iterator[Finding]:
    """Report code in the wheel that differs from the code in the folder. Tests and evaluations run the folder's code.

    A build configuration can take the module from another folder, rename files, or install files that only another
    Python loads.
    """
    files = package.snapshot.files
    other = sorted(path for path, digest in wheel.files.items() if files.get(_tested_path(path, files)) != digest)
    generated = not all(_tested_path(path, files) in files for path in other)
    if other:
        by_build = generated and bool(build_reasons(package.snapshot))  # A person has waived the code of this build.
        yield Finding(
            "wheel-differs",
            "warning" if by_build else "blocker",
            f"the wheel installs {count(len(other), 'file')} that the tests do not run: "
            f"{', '.join(quote(path, 80) for path in other[:4])}",
            "Let the build take the module from where it is imported here, under the same names: packages = "
            f'["{package.snapshot.manifest.module}"] under [tool.hatch.build.targets.wheel].',
            "pyproject.toml",
        )
    yield from _placed_elsewhere(wheel)
    yield from _further_modules(package, wheel)
    binary = sorted(path for path in {*wheel.files, *files} if path.endswith(_BINARY))
    if binary:
        yield Finding(
            "wheel-differs",
            "blocker",
            f"{quote(binary[0], 80)} is compiled code: whether that or the source beside it is loaded depends on the "
            "Python and on what is installed",
            "Leave compiled files out of the package; require a released distribution that holds them.",
            binary[0],
        )
    tops = {path.split("/")[0] for path in wheel.files}
    taken = foreign_modules(package.snapshot.manifest)
    # Tests search the folder before the installed distributions, so a module in the folder can replace one of those.
    tops |= {f"{name}.py" for name in package.code.modules if name in taken}
    foreign = sorted(
        top for top in tops if top in _STARTUP_MODULES or top.endswith(".pth") or top.removesuffix(".py") in taken
    )
    if foreign:
        yield Finding(
            "name-shadowed",
            "blocker",
            f"{', '.join(quote(top, 60) for top in foreign[:4])} at the top level is loaded by every Python at its "
            "start, or takes the place of another distribution's module",
            "Move it into the package, or give it another name.",
            "pyproject.toml",
        )


def _placed_elsewhere(wheel: UnpackedWheel) -> Iterator[Finding]:
    """Block files that an installation puts outside of the library folder, where nothing here looks at them.

    Those of a `.data` folder go to the root of the Python installation: `lib/python3.11/site-packages` of it holds the
    very modules that were tested, and `bin` the programs of a run. Only `share/` is for data.
    """
    placed = sorted(path for path in wheel.files if _DATA_FOLDER.match(path))
    shared = [path for path in placed if _SHARED.match(path) and ".." not in path.split("/")]
    judged: tuple[tuple[list[str], Severity], ...] = (
        ([path for path in placed if path not in shared], "blocker"),
        (shared, "warning"),
    )
    for found, severity in judged:
        if found:
            yield Finding(
                "wheel-differs",
                severity,
                f"the wheel installs {count(len(found), 'file')} outside of the library folder, where no test looks: "
                f"{', '.join(quote(path, 120) for path in found[:4])}",
                "Keep every file inside the package: leave out shared-data, shared-scripts and data_files.",
                "pyproject.toml",
            )


def _further_modules(package: EnvironmentPackage, wheel: UnpackedWheel) -> Iterator[Finding]:
    """Warn of modules that a wheel installs beside the environment's own: another program may load one by its name.

    The names that are known to be those of other distributions block (`foreign_modules`), and `missing_from_wheel`
    reports folders such as `tests`.
    """
    own = package.snapshot.manifest.module or ""
    tops = {path.split("/")[0].removesuffix(".py") for path in wheel.files if path.endswith(".py")}
    imported = {
        module.partition(".")[0]
        for file in package.code.files
        if file.path.removeprefix("src/").partition("/")[0].removesuffix(".py") == own
        for module, _, _ in imported_modules(file)
    }
    others = sorted(top for top in tops - GENERIC_NAMES - {own} if top.isidentifier())
    unused = [top for top in others if top not in imported]
    if others:
        untested = f"; no test loads {_named(unused)}" if unused else ""
        yield Finding(
            "wheel-top-level",
            "warning",
            f"beside {quote(own, 60)} the wheel installs {_named(others)}, which another program can load in place "
            f"of a module of its own{untested}",
            f"Leave it out of the wheel, or move it into the package: {own}/{others[0]}.",
            "pyproject.toml",
        )


_MOST_NAMED = 12
"""Most modules that a message names."""


def _named(modules: Sequence[str]) -> str:
    more = f" and {len(modules) - _MOST_NAMED} more" if len(modules) > _MOST_NAMED else ""
    return f"{', '.join(quote(name, 60) for name in modules[:_MOST_NAMED])}{more}"


def entry_points(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about entry points and scripts. Other programs run them after installation, and no test here runs them."""
    project = package.snapshot.manifest.project
    groups = project.get("entry-points")
    named = [f"entry points of {group}" for group in groups] if isinstance(groups, Mapping) else []
    for key in ("scripts", "gui-scripts"):
        scripts = project.get(key)
        named += [f"the program {name}" for name in scripts] if isinstance(scripts, Mapping) else []
    if named:
        yield Finding(
            "wheel-top-level",
            "warning",
            f"the wheel installs {', '.join(quote(name, 80) for name in named[:4])}, which other programs run by "
            "themselves and no test runs",
            "Remove them from [project]: an environment needs none.",
            package.line_of("entry-points" if groups else "scripts"),
        )


def _tested_path(path: str, files: Mapping[str, str]) -> str:
    """Return the file of the snapshot that tests load in place of the file `path` of the installed wheel.

    Tests search the snapshot's folder, then its subfolder `src` (`worker/child/environment.py`).
    """
    top = path.split("/")[0]
    name = top.removesuffix(".py")
    at_top = f"{name}.py" in files or f"{name}/__init__.py" in files
    place = path if at_top or (path in files and f"src/{name}/__init__.py" not in files) else f"src/{path}"
    package = f"{place.removesuffix('.py')}/__init__.py"
    return package if place.endswith(".py") and package in files else place  # Python prefers a package to a module.


def _missing(package: EnvironmentPackage, wheel: UnpackedWheel) -> Iterator[tuple[str, str | None]]:
    """Yield the files of the snapshot that the wheel lacks, each with the line of code that uses it, if any."""
    built = set(wheel.files.values())
    imported = {
        f"{module}.{name}" if name else module: file.at(line)
        for file in package.code.files
        for module, name, line in imported_modules(file)
    }
    for path, digest in package.snapshot.files.items():
        module_path = path.removeprefix("src/")
        if (
            module_path in wheel.files
            or digest in built
            or path in _METADATA_FILES
            or PurePosixPath(path).suffix == ".md"
        ):
            continue
        where = None
        if path.endswith(".py"):
            dotted = module_path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            where = next((at for name, at in imported.items() if name == dotted or name.startswith(f"{dotted}.")), None)
        beside = PurePosixPath(module_path)
        if where is None and (beside.parts[0] in _NOT_SHIPPED or beside.name.startswith("test_")):
            continue
        if path.endswith(".py"):
            if where is not None or "/" in module_path:
                yield path, where
        else:
            yield path, line_that_uses(package, module_path)


def line_that_uses(package: EnvironmentPackage, path: str) -> str | None:
    """Return the line of code that seems to open the data file `path`, as `FILE:LINE`; None if there is none.

    The line contains the file's name. Otherwise it contains the name of the file's folder, if the code also contains
    the file's suffix or lists folders.
    """
    parts = PurePosixPath(path).parts
    suffix = PurePosixPath(path).suffix
    folders = set(parts[:-1]) - package.code.modules
    folder_line: str | None = None
    dynamic = any(
        name.rsplit(".", 1)[-1] in _LISTING_FUNCTIONS for file in package.code.files for name, _ in file.calls()
    )
    for file in package.code.files:
        for text, line in file.strings():
            if len(text) > 200:
                continue
            path_parts = set(PurePosixPath(text.strip()).parts)
            if parts[-1] in path_parts:
                return file.at(line)
            if folders & path_parts:
                folder_line = folder_line or file.at(line)
            dynamic = dynamic or (bool(suffix) and text.strip().endswith(suffix))
    return folder_line if dynamic else None
