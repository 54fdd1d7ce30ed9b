"""Detects packages that run their own code while their wheel is built.

Such code runs on the machine that builds the wheel. It can also build one wheel during the check and another one when
the package is published. The server therefore builds no such package until a person waives the finding.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import PurePosixPath
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.syntax import parse_python
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck
from prime_lab_mcp.lab.state.snapshot import Snapshot

BUILD_RUNS_CODE: Code = "build-runs-code"

_BACKENDS: Mapping[str, str] = {
    "hatchling.build": "hatchling",
    "setuptools.build_meta": "setuptools",
    "setuptools.build_meta:__legacy__": "setuptools",
    "flit_core.buildapi": "flit-core",
    "poetry.core.masonry.api": "poetry-core",
    "pdm.backend": "pdm-backend",
    "uv_build": "uv-build",
}
"""Build backends and their distributions. They run code of the package only if its configuration asks for that."""
_REQUIRED = frozenset({*_BACKENDS.values(), "wheel"})
_BUILD_FILES = frozenset({"setup.py", "hatch.toml", "hatch_build.py", "pdm_build.py"})
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(.*)", re.S)


def build_code(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report a package whose build runs code other than the backend's."""
    reasons = build_reasons(package.snapshot)
    if reasons:
        yield Finding(
            "build-runs-code",
            "blocker",
            f"building the wheel runs code that the check cannot vouch for: {'; '.join(reasons[:4])}",
            Fix(
                "Let a plain backend build it (hatchling with packages = [...]); or ask the user to "
                f"waive this: prime-lab-mcp override {package.snapshot.name} build-runs-code "
                "--reason TEXT. Then call ",
                NamedCall("check_environment"),
                " again, which builds the wheel.",
            ),
            "pyproject.toml",
        )


def build_reasons(snapshot: Snapshot) -> list[str]:
    """Return the reasons why a build would run code other than the backend's; empty if it would not."""
    return [] if snapshot.manifest.problem is not None else list(_reasons(snapshot))


def may_build(snapshot: Snapshot, waived: Set[tuple[str, str]]) -> bool:
    """Return whether the build runs no code of the package, or a person has waived that for exactly these files.

    `waived` are the overrides of the ledger (`Ledger.overrides`): pairs of a digest of files and a finding's code.
    """
    prints = {(snapshot.content, BUILD_RUNS_CODE), (snapshot.source, BUILD_RUNS_CODE)}
    return bool(prints & waived) or (snapshot.manifest.problem is None and not build_reasons(snapshot))


def _reasons(snapshot: Snapshot) -> Iterator[str]:
    table = snapshot.manifest.table
    system = _table(table, "build-system")
    files = snapshot.files
    backend = system.get("build-backend", "setuptools.build_meta:__legacy__")
    if backend not in _BACKENDS:
        yield f"the build backend {quote(str(backend), 60)} is not known"
    if system.get("backend-path"):
        yield "backend-path names a backend in the package"
    yield from (f"{path} runs" for path in sorted(_BUILD_FILES & files.keys()) if path != "hatch_build.py")
    for requirement in system.get("requires") or ():
        match = _NAME.match(str(requirement))
        name = re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""
        if name not in _REQUIRED:
            yield f"it requires {quote(str(requirement), 60)} to build"
        elif match is not None and "@" in match[2]:
            yield f"its backend comes from {quote(match[2].strip(' @'), 60)}"
    yield from _tool_reasons(_table(table, "tool"))
    if backend == "flit_core.buildapi":
        yield from _flit_reasons(snapshot)
    if str(backend).startswith("setuptools."):
        yield from _setuptools_reasons(snapshot, str(backend))


def _tool_reasons(tool: Mapping[str, Any]) -> Iterator[str]:
    hatch = _table(tool, "hatch")
    build = _table(hatch, "build")
    targets = [t for t in _table(build, "targets").values() if isinstance(t, Mapping)]
    if any(_table(place, "hooks") for place in (build, *targets)):
        yield "it has hatch build hooks"
    if any(isinstance(t, Mapping) and t.get("dependencies") for t in (build, *targets)):
        yield "its hatch build requires more packages"
    if _table(hatch, "metadata").get("hooks"):
        yield "it has hatch metadata hooks"
    if _table(hatch, "version").get("source", "regex") not in ("regex",):
        yield "its version comes from code"
    if "custom" in _table(build, "targets"):
        yield "it has a custom hatch builder"
    setuptools = _table(tool, "setuptools")
    dynamic = [v for v in _table(setuptools, "dynamic").values() if isinstance(v, Mapping)]
    if setuptools.get("cmdclass") or any("attr" in v for v in dynamic):
        yield "setuptools imports code of the package"
    if setuptools.get("ext-modules"):
        yield "it compiles extension modules"
    if "distutils" in tool:
        yield "tool.distutils can name commands of the package"
    if _table(tool, "poetry").get("build"):
        yield "it has a poetry build script"
    pdm = _table(tool, "pdm")
    if {"custom-hook", "run-setuptools"} & _table(pdm, "build").keys():
        yield "it has pdm build hooks"
    if _table(pdm, "version").get("source", "file") != "file":
        yield "its version comes from code"


def _flit_reasons(snapshot: Snapshot) -> Iterator[str]:
    """Yield the reasons why flit imports the module.

    flit does so if it needs the module's docstring or `__version__`, and that is not a literal (flit_core 3.12,
    flit_core/common.py, get_info_from_module).
    """
    table = snapshot.manifest.table
    flit = _table(_table(table, "tool"), "flit")
    project = _table(table, "project")
    if "metadata" in flit or not project:
        yield "flit reads the metadata of the module, and imports the module where they are no literals"
        return
    dynamic = project.get("dynamic")
    fields = {name for name in ("version", "description") if isinstance(dynamic, list) and name in dynamic}
    if not fields:
        return
    module_name = _table(flit, "module").get("name") or str(project.get("name") or "").replace("-", "_")
    path = str(module_name).replace(".", "/")
    modules = [f"{root}{path}{end}" for root in ("", "src/") for end in (".py", "/__init__.py")]
    files = [module for module in modules if module in snapshot.files]
    if len(files) != 1 or not fields <= _literals(snapshot, files[0]):
        yield f"flit imports the module for its {' and '.join(sorted(fields))}"


def _text(snapshot: Snapshot, path: str) -> str:
    return (snapshot.tree / path).read_text(encoding="utf-8", errors="replace")


def _literals(snapshot: Snapshot, path: str) -> set[str]:
    """Return which of `version` and `description` a module states as literals."""
    try:
        module = parse_python((snapshot.tree / path).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()
    names = {"description"} if (ast.get_docstring(module) or "").strip() else set()
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        is_version = any(isinstance(target, ast.Name) and target.id == "__version__" for target in targets)
        if is_version and isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
            names.add("version")
    return names


_BESIDE_BACKEND = (
    frozenset({"setuptools", "wheel", "packaging", "pkg_resources", "distutils"}) | sys.stdlib_module_names
)


_CODE_IN_SETUP_CFG = re.compile(
    r"^\s*(?:cmdclass|ext[_-]modules|command[_-]packages|setup[_-]hooks)\b|\battr\s*:", re.M | re.I
)
"""Settings of setup.cfg by which setuptools imports code of the package (setuptools, "Configuring setuptools using
setup.cfg files")."""


def _setuptools_reasons(snapshot: Snapshot, backend: str) -> Iterator[str]:
    if "setup.cfg" in snapshot.files and _CODE_IN_SETUP_CFG.search(_text(snapshot, "setup.cfg")):
        yield "setup.cfg names code of the package"
    tops = {PurePosixPath(path).parts[0] for path in snapshot.files}
    if any(top.endswith((".egg-info", ".dist-info")) for top in tops):
        yield "metadata in the package can name plugins of setuptools"
    # The legacy backend searches the package's folder before the installed packages.
    names = {top.removesuffix(".py") for top in tops}
    if backend.endswith(":__legacy__") and (shadowing := sorted(names & _BESIDE_BACKEND)):
        yield f"without build-backend, setuptools imports {quote(shadowing[0], 60)} of the package"


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


BUILD_CHECKS: tuple[PackageCheck, ...] = (build_code,)
