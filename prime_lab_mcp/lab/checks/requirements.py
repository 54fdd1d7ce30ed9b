"""Checks of what a package requires: the bound on verifiers, imports nothing declares, names that hide others."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from prime_lab_mcp.lab.checks.generation import admits
from prime_lab_mcp.lab.checks.package import Check, Package
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

BUILT_IN = frozenset({"harbor", "nemo_gym", "openenv", "textarena"})
"""Tasksets of verifiers 0.4.0 that win over an environment of the same name."""
_IMPORT_NAMES = {
    "yaml": "pyyaml", "PIL": "pillow", "sklearn": "scikit-learn", "bs4": "beautifulsoup4", "dotenv": "python-dotenv",
    "cv2": "opencv-python", "dateutil": "python-dateutil", "jwt": "pyjwt", "git": "gitpython", "Crypto": "pycryptodome",
    "google": "protobuf", "docx": "python-docx", "fitz": "pymupdf", "attr": "attrs", "Levenshtein": "levenshtein",
}  # fmt: skip
_BROUGHT = frozenset({
    "verifiers", "pydantic", "openai", "httpx", "numpy", "mcp", "aiohttp", "anyio", "rich", "jinja2", "requests",
    "tenacity", "math-verify", "sympy", "transformers", "typing-extensions", "anthropic", "pydantic-core", "renderers",
})  # fmt: skip
"""Installed with verifiers; naming them is better style, leaving them out does not break."""
_OLD_BROUGHT = _BROUGHT | {"datasets", "textual", "nest-asyncio", "pydantic-config"}


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


def undeclared_imports(package: Package) -> Iterator[Finding]:
    """What is installed here by accident is missing where training runs."""
    if package.snapshot.manifest.problem is not None:
        return
    declared = {"verifiers"}
    for text in package.snapshot.manifest.requirements:
        try:
            declared.add(canonicalize_name(Requirement(text).name))
        except InvalidRequirement:
            yield Finding(
                "requirement-invalid", "blocker", f"{quote(text, 80)} is no readable dependency",
                "Write it as PEP 508 says, such as \"datasets>=4,<6\".", package.line_of(text),
            )  # fmt: skip
    brought = _OLD_BROUGHT if package.generation.api == "v0" else _BROUGHT
    told: set[str] = set()
    for file, found in package.code.imports():
        top = found.module.split(".")[0]
        wanted = canonicalize_name(_IMPORT_NAMES.get(top, top))
        own = top in package.code.modules or top in sys.stdlib_module_names
        if own or found.guarded or wanted in told or wanted in declared or wanted in brought:
            continue
        if any(wanted in d or d in wanted for d in declared):
            continue  # distributions whose import name is a part of theirs
        told.add(wanted)
        yield Finding(
            "undeclared-dependency", "blocker" if wanted == "datasets" else "warning",
            f"{top} is imported, and pyproject.toml does not require it",
            f'Add "{wanted}" to [project] dependencies.', file.at(found.line),
        )  # fmt: skip


GENERIC = frozenset({
    "tests", "test", "utils", "tools", "common", "helpers", "config", "configs", "data", "scripts", "src", "examples",
    "models", "docs", "core", "lib",
})  # fmt: skip
"""Top-level names that many packages install, so that one overwrites the other."""


def shadowing(package: Package) -> Iterator[Finding]:
    """A module of a name that Python or a requirement has already is never the one that is imported."""
    module = package.snapshot.manifest.module or ""
    if module in BUILT_IN:
        why = f"verifiers has a built-in taskset called {module}, which would be loaded instead"
    elif module in sys.stdlib_module_names:
        why = f"Python's standard library has a module {module}, which would be imported instead"
    elif module in {*(d.replace("-", "_") for d in _OLD_BROUGHT), "verifiers", "prime", "torch", "prime_rl"}:
        why = f"installing the package would overwrite the module {module} of another distribution"
    elif module in GENERIC:
        why = f"many packages install a module {module}, and the last one wins"
    else:
        return
    yield Finding("name-shadowed", "blocker", why, "Choose another project and module name.", package.line_of("name ="))


REQUIREMENT_CHECKS: tuple[Check, ...] = (requirement, undeclared_imports, shadowing)
