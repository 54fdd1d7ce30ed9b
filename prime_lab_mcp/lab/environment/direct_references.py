"""Dependencies that name an address instead of a released version.

What was proven ran with the files that the address gave here. Whoever installs the published package gets what the
address gives then, so only an address whose contents cannot change may be published: a commit, or an archive with its
hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck

_COMMIT = re.compile(r"@[0-9a-f]{40}$")
_HASH = re.compile(r"(?:^|&)(?:sha256=[0-9a-f]{64}|sha384=[0-9a-f]{96}|sha512=[0-9a-f]{128})(?:&|$)")


def direct_references(package: EnvironmentPackage) -> Iterator[Finding]:
    """Block dependencies of pyproject.toml whose address may give other files later."""
    manifest = package.snapshot.manifest
    if manifest.problem is not None:
        return
    requirements = [r for r in map(_parsed, manifest.requirements) if r is not None]
    for requirement in requirements:
        yield from _finding(requirement, package.line_of(requirement.name))
    tool = manifest.table.get("tool")
    uv = tool.get("uv") if isinstance(tool, Mapping) else None
    sources = uv.get("sources") if isinstance(uv, Mapping) else None
    named = {canonicalize_name(r.name) for r in requirements}
    for name, source in sources.items() if isinstance(sources, Mapping) else ():
        kinds = {"git", "url", "path", "workspace"} & _keys(source)
        if canonicalize_name(str(name)) in named and kinds:
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
    """Block addresses that only the built wheel requires, as where a build backend adds dependencies."""
    for metadata in sorted(tree.glob("*.dist-info/METADATA")):
        message = HeaderParser().parsestr(metadata.read_text(encoding="utf-8", errors="replace"))
        for requirement in map(_parsed, message.get_all("Requires-Dist") or ()):
            if requirement is not None and "extra" not in str(requirement.marker or ""):
                yield from _finding(requirement, "pyproject.toml")


def local_distribution_findings(names: Sequence[str]) -> Iterator[Finding]:
    """Block distributions that are installed from a folder of this machine, which nobody else has."""
    for name in names:
        yield Finding(
            "dependency-unpinned",
            "blocker",
            f"{name} is installed from a folder of this machine, so the proof rests on files that nobody else has",
            f"Publish {name} and install the released version here, then call check_environment.",
        )


def _finding(requirement: Requirement, where: str) -> Iterator[Finding]:
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
    """Why the contents of a requirement's address may change; None for a pinned address or none."""
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
        return None  # undeclared_imports reports it


def _keys(source: object) -> set[str]:
    tables = source if isinstance(source, list) else [source]
    return {str(key) for table in tables if isinstance(table, Mapping) for key in table}


REFERENCE_CHECKS: tuple[PackageCheck, ...] = (direct_references,)
