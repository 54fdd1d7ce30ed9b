"""What is published: environments on the Environments Hub, datasets of the same name on Hugging Face.

The Hub is asked through `prime`; Hugging Face directly, and never in a rehearsal.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.gates import HubFact
from prime_lab_mcp.lab.prime import Prime
from prime_lab_mcp.lab.prime.answers import Runtime, runtime_of
from prime_lab_mcp.lab.settings import Settings

_FIRST_V1 = Version("0.2.0")
"""prime 0.18.0 labels a package v1 when its verifiers requirement starts at 0.2.0 or later."""
_HUGGING_FACE_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One name on the Hub. `exists` None: it could not be asked, and `problem` says why."""

    owner: str
    name: str
    exists: bool | None
    version: str | None = None
    content_hash: str | None = None
    """Of the latest version; None where the Hub returns none."""
    visibility: str | None = None
    runtime: Runtime | None = None
    description: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version to content hash, newest first; filled by `look_up(..., versions=True)`."""
    problem: LabError | None = None

    @property
    def ref(self) -> str:
        return f"{self.owner}/{self.name}"

    def hash_of(self, version: str | None) -> str | None:
        """Content hash of a version, of the latest when none is named."""
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


async def look_up(prime: Prime, owner: str, name: str, *, versions: bool = False) -> Entry:
    """What the Hub holds under `owner/name`. Never raises: what could not be asked is `exists=None`."""
    ref = f"{owner}/{name}"
    try:
        answer = await prime.env_status(ref)
    except LabError as error:
        return Entry(owner, name, False if error.code == "platform-not-found" else None, problem=error)
    listed: dict[str, str] = {}
    if versions and answer.get("latest_version"):
        try:
            listed = await prime.env_versions(ref)
        except LabError as error:
            return Entry(owner, name, None, problem=error)
    latest = answer.get("latest_version")
    latest = latest if isinstance(latest, Mapping) else {}
    return Entry(
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


async def fact(prime: Prime, owner: str, name: str, version: str | None) -> HubFact:
    """What the gates want to know of one training or eval source. Never raises."""
    entry = await look_up(prime, owner, name, versions=version is not None)
    if entry.exists is not True:
        return HubFact(entry.exists)
    if entry.version is None and not entry.versions:
        return HubFact(False)
    wanted = version or entry.version
    if version is not None and not entry.holds(version):
        return HubFact(False, entry.version)
    return HubFact(True, wanted, entry.hash_of(wanted), await runtime_at(prime, entry, wanted))


async def runtime_at(prime: Prime, entry: Entry, version: str | None) -> Runtime | None:
    """The generation of one version: the Hub's label is of the latest, so another one is asked for its source."""
    if entry.runtime is not None and version in (None, entry.version):
        return entry.runtime
    return await runtime_from_source(prime, entry.ref, version or entry.version)


async def runtime_from_source(prime: Prime, ref: str, version: str | None) -> Runtime | None:
    """The generation that an unlabelled package requires, by the rule with which `prime env push` labels."""
    try:
        found = await prime.env_inspect(f"{ref}@{version}" if version else ref, "pyproject.toml")
        project = tomllib.loads(str(found.get("content") or "")).get("project") or {}
    except (LabError, tomllib.TOMLDecodeError):
        return None
    return runtime_required(project.get("dependencies") or ())


def runtime_required(requirements: Any) -> Runtime | None:
    """v1 for a verifiers requirement that starts at 0.2.0 or later, v0 for any other, None without one."""
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
    """Whether Hugging Face has a public dataset of this id; None where it could not be asked."""
    if settings.rehearsal or os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return None
    import httpx

    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    try:
        async with httpx.AsyncClient(timeout=_HUGGING_FACE_SECONDS, follow_redirects=True) as client:
            answer = await client.get(f"{base}/api/datasets/{id}")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    if answer.status_code == 200:
        return True
    # Hugging Face answers 401 for a repository that does not exist as for a private one.
    return False if answer.status_code in (401, 403, 404) else None


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int | float) and str(value) else None
