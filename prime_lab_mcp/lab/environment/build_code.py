"""Code that a package runs while its wheel is built.

Such code can build one wheel while the package is checked and another one when it is published or installed, and it
runs on the machine of whoever builds. A person may waive the finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck

_BACKENDS: Mapping[str, str] = {
    "hatchling.build": "hatchling",
    "setuptools.build_meta": "setuptools",
    "setuptools.build_meta:__legacy__": "setuptools",
    "flit_core.buildapi": "flit-core",
    "poetry.core.masonry.api": "poetry-core",
    "pdm.backend": "pdm-backend",
    "uv_build": "uv-build",
}
"""Build backends that run no code of the package unless it asks for that, with their distributions."""
_REQUIRED = frozenset({*_BACKENDS.values(), "wheel"})
_BUILD_FILES = frozenset({"setup.py", "hatch.toml", "hatch_build.py", "pdm_build.py"})
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(.*)", re.S)


def build_code(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report everything that makes a build run code which is not the backend's own."""
    if package.snapshot.manifest.problem is not None:
        return
    reasons = list(_reasons(package))
    if reasons:
        yield Finding(
            "build-runs-code",
            "blocker",
            f"building the wheel runs code that the check cannot vouch for: {'; '.join(reasons[:4])}",
            "Let a plain backend build it (hatchling with packages = [...]); or ask the user to waive this: "
            f"prime-lab-mcp override {package.snapshot.name} build-runs-code --reason TEXT.",
            "pyproject.toml",
        )


def _reasons(package: EnvironmentPackage) -> Iterator[str]:
    table = package.snapshot.manifest.table
    system = _table(table, "build-system")
    files = package.snapshot.files
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
    if _table(tool, "poetry").get("build"):
        yield "it has a poetry build script"
    pdm = _table(tool, "pdm")
    if {"custom-hook", "run-setuptools"} & _table(pdm, "build").keys():
        yield "it has pdm build hooks"
    if _table(pdm, "version").get("source", "file") != "file":
        yield "its version comes from code"


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


BUILD_CHECKS: tuple[PackageCheck, ...] = (build_code,)
