"""Decides whose a Hub environment is.

An environment is ours if its owner is the logged-in account or one of its teams, if this machine pushed it, or if its
files were made here. A project name alone counts only where the owner cannot be asked. What was first read by pulling
it from another owner stays theirs. Files in a folder (`.prime/.env-metadata.json`) are a name and prove nothing.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.snapshot import take_snapshot

_PULL = "create_environment"
"""The name of the pulling tool, under which the ledger notes a pull. No gate asks for these rows."""
_JUDGES = ("check_environment", "test_reward", "check_reward_distribution")


@dataclass(frozen=True, slots=True)
class FileFingerprints:
    """What is known about the files of a Hub environment. `cli_hash` is the Hub's own hash, which is a hint."""

    cli_hash: str | None = None
    source: str | None = None
    content: str | None = None

    def matches(self, row: dict[str, Any]) -> bool:
        """True if a row names the same files; rows of earlier versions know the CLI's hash alone."""
        pairs = [(self.source, row.get("source")), (self.content, row.get("content"))]
        if not any(known for _, known in pairs) or not any(own for own, _ in pairs):
            pairs = [(self.cli_hash, row.get("cli_hash"))]
        return any(own and own == known for own, known in pairs)


@dataclass(frozen=True, slots=True)
class Ownership:
    """What decides whose a name is, asked once for a call."""

    owners: frozenset[str] | None
    """Names of the account and its teams in lower case; None if they could not be asked."""
    local_names: frozenset[str]
    """Project names of this workspace's folders, and `owner/name` of the CLI's records in them."""
    pulled: tuple[dict[str, Any], ...]
    """Files that any workspace pulled from another owner before it knew them."""

    def is_ours(self, lab: Lab, owner: str, name: str, files: FileFingerprints) -> bool:
        if self.owners is not None and owner.lower() in self.owners:
            return True
        if lab.ledger.pushes(owner=owner, name=name, platform=lab.platform):
            return True
        if self.made_here(lab, files):
            return True
        return self.owners is None and bool({_project(name), f"{owner}/{name}"} & self.local_names)

    def made_here(self, lab: Lab, files: FileFingerprints) -> bool:
        """Whether these files are known to a workspace of this machine, and not by pulling them from another owner."""
        known = lab.ledger.knows_files(source=files.source, content=files.content, cli_hash=files.cli_hash)
        return known and not any(files.matches(row) for row in self.pulled)


async def read_ownership(lab: Lab, prime: PlatformReader | None = None) -> Ownership:
    """Ask the account and read the workspace. Never raises."""
    owners = await _owners(prime or lab.prime)
    names = await anyio.to_thread.run_sync(_local_names, lab)
    rows = lab.ledger.evidence(tool=_PULL)
    pulled = tuple(dict(row.data) for row in rows if row.platform == lab.platform and row.data.get("pulled"))
    return Ownership(owners, names, pulled)


async def _owners(prime: PlatformReader) -> frozenset[str] | None:
    try:
        account = await prime.account()
        teams = await prime.teams()
    except LabError:
        return None
    return frozenset(n.lower() for n in (account.user, *(team.slug for team in teams)) if n)


def failed_verdicts(lab: Lab, source: str | None) -> tuple[str, ...]:
    """The latest verdicts on files with this source, in any workspace, that failed."""
    if not source:
        return ()
    failed: list[str] = []
    for tool in _JUDGES:
        rows = lab.ledger.evidence(tool=tool, source=source)
        latest = next((row for row in rows if row.platform in (None, lab.platform)), None)
        if latest is not None and latest.status == "failed":
            failed.append(f"{tool} ({', '.join(latest.blockers[:3])})")
    return tuple(failed)


async def note_pulled(lab: Lab, ref: str, folder: Path) -> None:
    """Record that these files came from another owner and were unknown here, so that reading them does not make them
    ours.

    Without this record, validating another owner's environment would close the fast path for it.
    """
    try:
        taken = await anyio.to_thread.run_sync(
            take_snapshot, lab.workspace.environment(folder.name), lab.settings.snapshots
        )
    except LabError:
        return  # what cannot be read as an environment is in no snapshot either
    owner, _, name = ref.partition("@")[0].partition("/")
    ownership = await read_ownership(lab)
    files = FileFingerprints(taken.cli_hash, taken.source, taken.content)
    if lab.ledger.knows_files(source=files.source, content=files.content, cli_hash=files.cli_hash):
        return
    if ownership.owners is not None and ownership.is_ours(lab, owner, name, files):
        return
    lab.ledger.record(
        Evidence(
            _PULL,
            "passed",
            lab.key,
            folder.name,
            arguments={"hub": ref},
            platform=lab.platform,
            data={"pulled": ref, "cli_hash": taken.cli_hash, "source": taken.source, "content": taken.content},
        )
    )


def _local_names(lab: Lab) -> frozenset[str]:
    names: set[str] = set()
    for folder in lab.workspace.list_environments():
        with contextlib.suppress(OSError):
            names.add(parse_manifest((folder.path / "pyproject.toml").read_bytes()).module or "")
        try:
            record = json.loads((folder.path / ".prime" / ".env-metadata.json").read_text(encoding="utf-8"))
            if "pushed_at" in record:  # a pulled environment has the same file, with pulled_at
                names.add(f"{record['owner']}/{record['name']}")
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return frozenset(names - {""})


def _project(name: str) -> str:
    return name.replace("-", "_").lower()
