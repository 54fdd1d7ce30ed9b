"""Checks of a package's requirements: the bound on verifiers, undeclared imports, and names that shadow others.

`hidden_modules` returns the modules of an interpreter that the package's declared requirements do not provide. The
server's own environment and the toolchain's contain more than a package declares. Loading a package with those modules
hidden has the effect of a clean installation without making one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from prime_lab_mcp.lab.base import versions
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.distributions import InstalledDistribution, read_distributions, requirement_closure
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck
from prime_lab_mcp.lab.state.source_code import requirement_admits


def hidden_modules(python: Path, key: str, wanted: Sequence[Requirement]) -> tuple[str, ...]:
    """Return the interpreter's top-level modules that `wanted` does not provide. `key` identifies its exact
    contents.
    """
    return _hidden(python, key, tuple(map(str, wanted)))


@lru_cache(maxsize=64)
def _hidden(python: Path, key: str, requirements: tuple[str, ...]) -> tuple[str, ...]:
    installed, needed = _installed(python, key), [Requirement(r) for r in requirements]
    provided = requirement_closure(installed, needed)
    allowed = {m for name in provided for m in installed[name].modules}
    modules = {m for name, dist in installed.items() if name not in provided for m in dist.modules}
    return tuple(sorted(modules - allowed - sys.stdlib_module_names))


@lru_cache(maxsize=4)
def _installed(python: Path, key: str) -> Mapping[str, InstalledDistribution]:
    return read_distributions(python)


BUILT_IN = frozenset({"harbor", "nemo_gym", "openenv", "textarena"})
"""Tasksets of verifiers 0.4.0 that take precedence over an environment of the same name."""
_IMPORT_NAMES = {
    "yaml": "pyyaml",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "bs4": "beautifulsoup4",
    "dotenv": "python-dotenv",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "jwt": "pyjwt",
    "git": "gitpython",
    "Crypto": "pycryptodome",
    "google": "protobuf",
    "docx": "python-docx",
    "fitz": "pymupdf",
    "attr": "attrs",
    "Levenshtein": "levenshtein",
}
_IMPLIED = frozenset(
    {
        "verifiers",
        "pydantic",
        "openai",
        "httpx",
        "numpy",
        "mcp",
        "aiohttp",
        "anyio",
        "rich",
        "jinja2",
        "requests",
        "tenacity",
        "math-verify",
        "sympy",
        "transformers",
        "typing-extensions",
        "anthropic",
        "pydantic-core",
        "renderers",
    }
)
"""Distributions that come with verifiers. Declaring them is better style, but omitting them breaks nothing."""
_V0_IMPLIED = _IMPLIED | {"datasets", "textual", "nest-asyncio", "pydantic-config"}


def requirement(package: EnvironmentPackage) -> Iterator[Finding]:
    """Check the bound on verifiers, which decides the installed API and the Hub's label of the environment."""
    manifest, api = package.snapshot.manifest, package.generation.api
    if manifest.problem is not None:
        return
    needed = manifest.verifiers
    advised = versions.V0_ADVISED if api == "v0" else versions.V1_REQUIREMENT
    if needed is None:
        yield Finding(
            "verifiers-not-required",
            "blocker",
            "the dependencies in pyproject.toml do not name verifiers",
            f'Add "{advised}" to [project] dependencies.',
            "pyproject.toml",
        )
        return
    where = package.line_of("verifiers" + str(needed.specifier)[:3]) if str(needed.specifier) else None
    where = where if where and ":" in where else package.line_of('"verifiers')
    if needed.url:
        yield Finding(
            "verifiers-unversioned",
            "warning",
            "verifiers is required by URL, so the Hub cannot tell its generation",
            f'Require a released version: "{advised}".',
            where,
        )
    elif api == "v0":
        yield from _v0_bounds(needed, where)
    elif api == "v1":
        yield from _v1_bounds(needed, where)


def _v0_bounds(needed: Requirement, where: str) -> Iterator[Finding]:
    stated = str(needed).replace('"', "'")
    if requirement_admits(needed, (*versions.V1_RELEASES, *versions.LATER_RELEASES)) and requirement_admits(
        needed, versions.V0_RELEASES
    ):
        yield Finding(
            "uncapped-verifiers",
            "blocker",
            f"{quote(stated, 80)} has no upper bound and installs verifiers 0.4, which removed the API this code uses",
            f'Require "{versions.V0_ADVISED}", or port to v1 with the prompt migrate_environment.',
            where,
        )
    elif requirement_admits(needed, versions.V0_RELEASES_LABELLED_V1) and not requirement_admits(
        needed, versions.RELEASES_BEFORE_0_2
    ):
        yield Finding(
            "runtime-misread",
            "warning",
            f"the Hub reads {quote(stated, 80)} as v1, because the lower bound is 0.2.0 or newer; this is v0",
            f'push_environment states the runtime, so nothing breaks; better require "{versions.V0_ADVISED}".',
            where,
        )


def _v1_bounds(needed: Requirement, where: str) -> Iterator[Finding]:
    stated = str(needed).replace('"', "'")
    if not requirement_admits(needed, versions.V1_RELEASES):
        yield Finding(
            "verifiers-outdated",
            "warning",
            f"{quote(stated, 80)} excludes verifiers 0.4, which training uses",
            f'Require "{versions.V1_REQUIREMENT}".',
            where,
        )
    elif requirement_admits(needed, versions.LATER_RELEASES):
        yield Finding(
            "uncapped-verifiers",
            "warning",
            f"{quote(stated, 80)} has no upper bound; the API has changed incompatibly with every minor version so far",
            f'Require "{versions.V1_REQUIREMENT}".',
            where,
        )
    if requirement_admits(needed, versions.RELEASES_BEFORE_0_2):
        yield Finding(
            "runtime-misread",
            "warning",
            f"the Hub reads {quote(stated, 80)} as v0, because it states no lower bound of 0.2.0 or newer; this is v1",
            f'Require "{versions.V1_REQUIREMENT}".',
            where,
        )


def undeclared_imports(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report undeclared imports: an import that happens to work here fails where training runs."""
    if package.snapshot.manifest.problem is not None:
        return
    declared = {"verifiers"}
    for text in package.snapshot.manifest.requirements:
        try:
            declared.add(canonicalize_name(Requirement(text).name))
        except InvalidRequirement:
            yield Finding(
                "requirement-invalid",
                "blocker",
                f"{quote(text, 80)} is no readable dependency",
                f'Write it as PEP 508 says, such as "{versions.DATASETS_REQUIREMENT}".',
                package.line_of(text),
            )
    implied = _V0_IMPLIED if package.generation.api == "v0" else _IMPLIED
    reported: set[str] = set()
    for file, imported in package.code.imports():
        top = imported.module.split(".")[0]
        distribution = canonicalize_name(_IMPORT_NAMES.get(top, top))
        own = top in package.code.modules or top in sys.stdlib_module_names
        if own or imported.guarded or distribution in reported or distribution in declared or distribution in implied:
            continue
        if any(distribution in d or d in distribution for d in declared):
            continue  # distributions whose import name is a part of theirs
        reported.add(distribution)
        yield Finding(
            "undeclared-dependency",
            "blocker" if distribution == "datasets" else "warning",
            f"{top} is imported, and pyproject.toml does not require it",
            f'Add "{distribution}" to [project] dependencies.',
            file.at(imported.line),
        )


GENERIC_NAMES = frozenset(
    {
        "tests",
        "test",
        "utils",
        "tools",
        "common",
        "helpers",
        "config",
        "configs",
        "data",
        "scripts",
        "src",
        "examples",
        "models",
        "docs",
        "core",
        "lib",
    }
)
"""Top-level names that many packages install, so that one overwrites the other."""


def shadowing(package: EnvironmentPackage) -> Iterator[Finding]:
    """Block a module name that Python or a requirement uses already, because imports would load the other module."""
    module = package.snapshot.manifest.module or ""
    if module in BUILT_IN:
        why = f"verifiers has a built-in taskset called {module}, which would be loaded instead"
    elif module in sys.stdlib_module_names:
        why = f"Python's standard library has a module {module}, which would be imported instead"
    elif module in {*(d.replace("-", "_") for d in _V0_IMPLIED), "verifiers", "prime", "torch", "prime_rl"}:
        why = f"installing the package would overwrite the module {module} of another distribution"
    elif module in GENERIC_NAMES:
        why = f"many packages install a module {module}, and the last one wins"
    else:
        return
    yield Finding("name-shadowed", "blocker", why, "Choose another project and module name.", package.line_of("name ="))


REQUIREMENT_CHECKS: tuple[PackageCheck, ...] = (requirement, undeclared_imports, shadowing)
