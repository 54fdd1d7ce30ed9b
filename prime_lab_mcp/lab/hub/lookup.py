"""Looks up environments on the Environments Hub, and Hugging Face datasets of the same name.

Requests to the Hub go through `prime`. Hugging Face is asked directly, and never in a rehearsal.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.limited_answers import get_limited
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.prime.answers import Runtime, runtime_of
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.config_gate import HubFact

_FIRST_V1 = Version("0.2.0")
"""prime 0.18.0 labels a package v1 when its verifiers requirement starts at 0.2.0 or later."""
_HUGGING_FACE_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class HubEntry:
    """One environment name on the Hub. `exists` is None if the Hub did not answer, and `problem` states the reason."""

    owner: str
    name: str
    exists: bool | None
    version: str | None = None
    content_hash: str | None = None
    """The content hash of the latest version; None if the Hub returns none."""
    visibility: str | None = None
    runtime: Runtime | None = None
    description: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Content hash by version, newest first. Only `look_up_environment(..., versions=True)` fills this."""
    problem: LabError | None = None

    @property
    def ref(self) -> str:
        return f"{self.owner}/{self.name}"

    def hash_of(self, version: str | None) -> str | None:
        """The content hash of a version, or of the latest version if none is given."""
        if version is None or version == self.version:
            return self.content_hash or self.versions.get(self.version or "") or None
        return self.versions.get(version) or None

    def holds(self, version: str) -> bool:
        return version == self.version or version in self.versions

    def version_with(self, content_hash: str) -> str | None:
        """The newest version with this content hash."""
        if content_hash and content_hash == self.content_hash:
            return self.version
        return next((v for v, digest in self.versions.items() if digest == content_hash), None)


async def look_up_environment(prime: PlatformReader, owner: str, name: str, *, versions: bool = False) -> HubEntry:
    """Look up `owner/name` on the Hub. Never raises; a failure gives `exists=None`."""
    ref = f"{owner}/{name}"
    try:
        answer = await prime.env_status(ref)
    except LabError as error:
        return HubEntry(owner, name, False if error.code == "platform-not-found" else None, problem=error)
    listed: dict[str, str] = {}
    if versions and answer.get("latest_version"):
        try:
            listed = await prime.env_versions(ref)
        except LabError as error:
            return HubEntry(owner, name, None, problem=error)
    latest = answer.get("latest_version")
    latest = latest if isinstance(latest, Mapping) else {}
    return HubEntry(
        owner,
        name,
        True,
        version=_text(latest.get("semantic_version")),
        content_hash=_text(latest.get("content_hash")),
        visibility=_text(answer.get("visibility")),
        runtime=runtime_of(answer),
        description=_text(answer.get("description")),
        versions=listed,
    )


async def hub_fact(prime: PlatformReader, owner: str, name: str, version: str | None) -> HubFact:
    """The facts that gates need about one training or eval source. Never raises.

    Older versions are requested only if the requested version is not the latest, or the latest has no hash.
    """
    entry = await look_up_environment(prime, owner, name)
    if entry.exists and version is not None and (version != entry.version or not entry.content_hash):
        entry = await look_up_environment(prime, owner, name, versions=True)
    if entry.exists is not True:
        return HubFact(entry.exists)
    if entry.version is None and not entry.versions:
        return HubFact(False)
    pinned = version or entry.version
    if version is not None and not entry.holds(version):
        return HubFact(False, entry.version)
    return HubFact(True, pinned, entry.hash_of(pinned), await runtime_at(prime, entry, pinned))


async def runtime_at(prime: PlatformReader, entry: HubEntry, version: str | None) -> Runtime | None:
    """The verifiers generation of one version. The Hub labels only the latest; others are read from source."""
    if entry.runtime is not None and version in (None, entry.version):
        return entry.runtime
    return await runtime_from_source(prime, entry.ref, version or entry.version)


async def runtime_from_source(prime: PlatformReader, ref: str, version: str | None) -> Runtime | None:
    """The verifiers generation that a package's requirements imply, by the rule of `prime env push`."""
    try:
        source = await prime.env_inspect(f"{ref}@{version}" if version else ref, "pyproject.toml")
        project = tomllib.loads(str(source.get("content") or "")).get("project") or {}
    except (LabError, tomllib.TOMLDecodeError, RecursionError):
        return None
    return runtime_required(project.get("dependencies") or ())


def runtime_required(requirements: Any) -> Runtime | None:
    """The verifiers generation that a list of requirements implies.

    It is v1 if the requirement on verifiers starts at 0.2.0 or later, and v0 for any other requirement on verifiers. It
    is None if no requirement names verifiers.
    """
    for text in requirements if isinstance(requirements, list | tuple) else ():
        try:
            requirement = Requirement(str(text))
        except InvalidRequirement:
            continue
        if requirement.name.lower() != "verifiers" or requirement.url:
            continue
        floors = [s.version.removesuffix(".*") for s in requirement.specifier if s.operator in (">=", ">", "==", "~=")]
        try:
            return "v1" if any(Version(f) >= _FIRST_V1 for f in floors) else "v0"
        except InvalidVersion:
            return None
    return None


async def is_dataset(settings: Settings, id: str) -> bool | None:
    """Whether Hugging Face has a public dataset of this id; None when it did not answer."""
    if settings.rehearsal or os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return None
    import httpx

    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    try:
        async with httpx.AsyncClient(timeout=_HUGGING_FACE_SECONDS, follow_redirects=True) as client:
            answer = await get_limited(client, f"{base}/api/datasets/{id}")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    if answer.status_code == 200:
        return True
    # Hugging Face also answers 401 for a repository that does not exist.
    return False if answer.status_code in (401, 403, 404) else None


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int | float) and str(value) else None
