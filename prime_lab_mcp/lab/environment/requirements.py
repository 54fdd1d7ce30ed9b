"""Checks of a package's requirements: the bound on verifiers, undeclared imports, shadowed names, pinned addresses.

`hidden_modules` returns the modules of an interpreter that the package's declared requirements do not provide. The
interpreters of the server and of its toolchain contain more packages than an environment declares. Loading a package
with these modules hidden has the same effect as a clean installation, but is faster.

A requirement may name a URL instead of a released version. The files at a URL can change after the check. A package may
therefore be published only if the contents of its URLs cannot change: a commit, or an archive with its hash.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from prime_lab_mcp.lab.base import versions
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.distributions import InstalledDistribution, read_distributions, requirement_closure
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck
from prime_lab_mcp.lab.state.manifest import Manifest
from prime_lab_mcp.lab.state.source_code import requirement_admits


def hidden_modules(python: Path, key: str, requirements: Sequence[Requirement]) -> tuple[str, ...]:
    """Return the top-level modules of the interpreter `python` that `requirements` do not provide.

    `key` identifies the installed packages of the interpreter. Results are cached by it.
    """
    return _hidden(python, key, tuple(map(str, requirements)))


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
"""Built-in tasksets of verifiers 0.4.0. They take precedence over an environment of the same name."""
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
"""Distributions that verifiers installs. A package may import them without declaring them."""
_V0_IMPLIED = _IMPLIED | {"datasets", "textual", "nest-asyncio", "pydantic-config"}


def requirement(package: EnvironmentPackage) -> Iterator[Finding]:
    """Check the bound on verifiers.

    The bound determines which API is installed, and whether the Hub labels the package v0 or v1.
    """
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
    bound = str(needed).replace('"', "'")
    if requirement_admits(needed, (*versions.V1_RELEASES, *versions.LATER_RELEASES)) and requirement_admits(
        needed, versions.V0_RELEASES
    ):
        yield Finding(
            "uncapped-verifiers",
            "blocker",
            f"{quote(bound, 80)} has no upper bound and installs verifiers 0.4, which removed the API this code uses",
            f'Require "{versions.V0_ADVISED}", or port to v1 with the prompt migrate_environment.',
            where,
        )
    elif requirement_admits(needed, versions.V0_RELEASES_LABELLED_V1) and not requirement_admits(
        needed, versions.RELEASES_BEFORE_0_2
    ):
        yield Finding(
            "runtime-misread",
            "warning",
            f"the Hub reads {quote(bound, 80)} as v1, because the lower bound is 0.2.0 or newer; this package is v0",
            f'push_environment states the runtime, so nothing breaks; better require "{versions.V0_ADVISED}".',
            where,
        )


def _v1_bounds(needed: Requirement, where: str) -> Iterator[Finding]:
    bound = str(needed).replace('"', "'")
    if not requirement_admits(needed, versions.V1_RELEASES):
        yield Finding(
            "verifiers-outdated",
            "warning",
            f"{quote(bound, 80)} excludes verifiers 0.4, which training uses",
            f'Require "{versions.V1_REQUIREMENT}".',
            where,
        )
    elif requirement_admits(needed, versions.LATER_RELEASES):
        yield Finding(
            "uncapped-verifiers",
            "warning",
            f"{quote(bound, 80)} has no upper bound; the API has changed incompatibly with every minor version so far",
            f'Require "{versions.V1_REQUIREMENT}".',
            where,
        )
    if requirement_admits(needed, versions.RELEASES_BEFORE_0_2):
        yield Finding(
            "runtime-misread",
            "warning",
            f"the Hub reads {quote(bound, 80)} as v0, because it states no lower bound of 0.2.0 or newer; this is v1",
            f'Require "{versions.V1_REQUIREMENT}".',
            where,
        )


def undeclared_imports(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report imports of distributions that are not declared. They may be installed here but not where training runs."""
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
            continue  # The import name is a part of a declared distribution's name, or the other way round.
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
"""Top-level module names that many packages install, so that they overwrite each other."""


_BESIDE = """
accelerate aiofiles aiohappyeyeballs aiohttp aiosignal annotated_doc annotated_types anthropic antlr4 anyio attr
attrs bitsandbytes certifi cffi charset_normalizer click cloudpickle connectrpc cryptography cupy datasets deepspeed
dill distro docstring_parser filelock flash_attn flashinfer frozenlist fsspec gepa google h11 hf_xet httpcore
httpcore2 httpx httpx2 huggingface_hub idna isympy jinja2 jiter jsonschema jsonschema_specifications jwt
latex2sympy2_extended liger_kernel loguru markdown_it markupsafe math_verify mcp mcp_types mdurl mlflow mpmath
msgpack msgspec multidict multipart multiprocess numpy openai openai_harmony opentelemetry orjson packaging pandas
peft PIL prime_runs prime_sandboxes prime_traces prime_tunnel prometheus_client propcache psutil pyarrow pycparser
pydantic pydantic_config pydantic_core pygments pyqwest python_multipart ray referencing regex renderers requests
rich rpds safetensors scipy sentencepiece setproctitle shellingham six sniffio sse_starlette starlette sympy
tenacity tensorboard tiktoken tiktoken_ext tokenizers tomli tomli_w tomlkit torchao torchdata torchtitan torchvision
tqdm transformers triton trl truststore typer typing_extensions typing_inspection urllib3 uvicorn uvloop verifiers
wandb xformers xxhash yaml yarl zmq
"""
_INSTALLED_BESIDE = frozenset(_BESIDE.split())
"""Modules that verifiers 0.4.0 brings along, and modules that programs for training use: where an environment is
trained, a module of such a name in its wheel takes the place of theirs."""
KNOWN_MODULES = _INSTALLED_BESIDE | {
    *(d.replace("-", "_") for d in _V0_IMPLIED),
    "verifiers",
    "prime",
    "torch",
    "prime_rl",
    "vllm",
    "prime_lab_mcp",
}
"""Modules of verifiers, of what it brings along, of programs for training, and of this package."""


def foreign_modules(manifest: Manifest) -> frozenset[str]:
    """Return the modules of Python, verifiers and the package's requirements, without the package's own module."""
    names = {canonicalize_name(r.name) for text in manifest.requirements if (r := _parsed(text)) is not None}
    modules = {name.replace("-", "_") for name in names}
    modules |= {module for module, distribution in _IMPORT_NAMES.items() if distribution in names}
    return (frozenset(sys.stdlib_module_names) | KNOWN_MODULES | modules) - {manifest.module or ""}


def shadowing(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report a module name that Python, verifiers or other packages use. Imports would load the other module."""
    module = package.snapshot.manifest.module or ""
    if module in BUILT_IN:
        why = f"verifiers has a built-in taskset called {module}, which would be loaded instead"
    elif module in sys.stdlib_module_names:
        why = f"Python's standard library has a module {module}, which would be imported instead"
    elif module in KNOWN_MODULES:
        why = f"installing the package would overwrite the module {module} of another distribution"
    elif module in GENERIC_NAMES:
        why = f"many packages install a module {module}, and the last one wins"
    else:
        return
    yield Finding("name-shadowed", "blocker", why, "Choose another project and module name.", package.line_of("name ="))


_COMMIT = re.compile(r"@[0-9a-f]{40}$")
_HASH = re.compile(r"(?:^|&)(?:sha256=[0-9a-f]{64}|sha384=[0-9a-f]{96}|sha512=[0-9a-f]{128})(?:&|$)")


def direct_references(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report dependencies in pyproject.toml whose URL may have other contents later."""
    manifest = package.snapshot.manifest
    if manifest.problem is not None:
        return
    requirements = [r for r in map(_parsed, manifest.requirements) if r is not None]
    for requirement in requirements:
        yield from _unpinned_findings(requirement, package.line_of(requirement.name))
    tool = manifest.table.get("tool")
    uv = tool.get("uv") if isinstance(tool, Mapping) else None
    sources = uv.get("sources") if isinstance(uv, Mapping) else None
    required = {canonicalize_name(r.name) for r in requirements}
    for name, source in sources.items() if isinstance(sources, Mapping) else ():
        kinds = {"git", "url", "path", "workspace"} & _source_keys(source)
        if canonicalize_name(str(name)) in required and kinds:
            yield Finding(
                "dependency-unpinned",
                "blocker",
                f"[tool.uv.sources] takes {quote(str(name), 60)} from a {min(kinds)}, and only uv reads that: what was "
                "proven here and what is installed elsewhere differ",
                f'Remove the entry and require a released version, or write "{name} @ git+https://...@COMMIT" (40 hex '
                "digits) in [project] dependencies.",
                package.line_of("tool.uv.sources"),
            )


def wheel_references(tree: Path) -> Iterator[Finding]:
    """Report unpinned URLs among the requirements of the built wheel in the folder `tree`.

    A build backend can add requirements that pyproject.toml does not state.
    """
    for metadata in sorted(tree.glob("*.dist-info/METADATA")):
        message = HeaderParser().parsestr(metadata.read_text(encoding="utf-8", errors="replace"))
        for requirement in map(_parsed, message.get_all("Requires-Dist") or ()):
            if requirement is not None and "extra" not in str(requirement.marker or ""):
                yield from _unpinned_findings(requirement, "pyproject.toml")


def wheel_requirements(package: EnvironmentPackage, tree: Path) -> Iterator[Finding]:
    """Report requirements of the built wheel that pyproject.toml does not state. No test here runs with them."""
    manifest = package.snapshot.manifest
    stated = {_requirement_key(r) for r in map(_parsed, manifest.requirements) if r is not None}
    for metadata in sorted(tree.glob("*.dist-info/METADATA")):
        message = HeaderParser().parsestr(metadata.read_text(encoding="utf-8", errors="replace"))
        for requirement in map(_parsed, message.get_all("Requires-Dist") or ()):
            if (
                requirement is None
                or "extra" in str(requirement.marker or "")
                or _requirement_key(requirement) in stated
            ):
                continue
            yield Finding(
                "undeclared-dependency",
                "blocker",
                f"the built wheel requires {quote(str(requirement), 120)}, which [project] dependencies do not state: "
                "nothing here runs with it",
                "State every requirement in [project] dependencies, and none that is dynamic.",
                "pyproject.toml",
            )


def _requirement_key(requirement: Requirement) -> tuple[str, frozenset[str], str, str]:
    name = canonicalize_name(requirement.name)
    return name, frozenset(requirement.extras), str(requirement.specifier), requirement.url or ""


def conditional_requirements(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about a requirement that training machines install but this machine does not. No test here runs with it."""
    for text in package.snapshot.manifest.requirements:
        requirement = _parsed(text)
        marker = requirement.marker if requirement is not None else None
        if requirement is None or marker is None or marker.evaluate():
            continue
        if any(
            marker.evaluate({**_TRAINING_MARKERS, "python_version": v, "python_full_version": f"{v}.9"})
            for v in _PYTHONS
        ):
            yield Finding(
                "undeclared-dependency",
                "warning",
                f"{quote(requirement.name, 60)} is installed only where {quote(str(marker), 100)}, which is not so "
                "here: where training runs, the code may find a module that nothing here ran with",
                "Remove the condition, or the requirement.",
                package.line_of(requirement.name),
            )


_PYTHONS = ("3.11", "3.12", "3.13")
_TRAINING_MARKERS = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "extra": "",
}
"""Values of environment markers (PEP 508) on training machines."""


def local_distribution_findings(names: Sequence[str]) -> Iterator[Finding]:
    """Report distributions that are installed from a folder of this machine. Other machines do not have the folder."""
    for name in names:
        yield Finding(
            "dependency-unpinned",
            "blocker",
            f"{name} is installed from a folder of this machine, so the proof rests on files that nobody else has",
            Fix(
                f"Publish {name} and install the released version here, then call ", NamedCall("check_environment"), "."
            ),
        )


def _unpinned_findings(requirement: Requirement, where: str) -> Iterator[Finding]:
    reason = unpinned_reason(requirement)
    if reason is None:
        return
    name = requirement.name
    yield Finding(
        "dependency-unpinned",
        "blocker",
        f"{quote(str(requirement), 160)} {reason}",
        f'Require a released version ("{name}==1.2.3"), a commit ("{name} @ git+https://...@COMMIT", 40 hex digits), '
        f'or an archive with its hash ("{name} @ https://...whl#sha256=...").',
        where,
    )


def unpinned_reason(requirement: Requirement) -> str | None:
    """Return why the contents of a requirement's URL may change; None if it is pinned or has no URL."""
    if requirement.url is None:
        return None
    address = urlsplit(requirement.url.strip())
    if "+" in address.scheme and not address.scheme.endswith("+file"):
        return None if _COMMIT.search(address.path) else "names no commit, so it installs whatever is there that day"
    if address.scheme in ("http", "https"):
        return None if _HASH.search(address.fragment) else "has no hash, so another file may be served under it"
    return "is a path on this machine, which nobody else has"


def _parsed(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None  # `undeclared_imports` reports the text.


def _source_keys(source: object) -> set[str]:
    tables = source if isinstance(source, list) else [source]
    return {str(key) for table in tables if isinstance(table, Mapping) for key in table}


REQUIREMENT_CHECKS: tuple[PackageCheck, ...] = (requirement, undeclared_imports, shadowing, conditional_requirements)

REFERENCE_CHECKS: tuple[PackageCheck, ...] = (direct_references,)
