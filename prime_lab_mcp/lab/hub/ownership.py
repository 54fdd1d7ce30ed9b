"""Decides who owns a Hub environment, and what training on the environment needs.

An environment is ours if its owner is the logged-in account or one of its teams, if this machine pushed it, or if its
files were made here. A project name alone counts only where the owner cannot be asked. An environment that was first
pulled from another owner stays theirs. Files in a folder (`.prime/.env-metadata.json`) are a name and prove nothing.

Another owner's v1 environment can go straight into a config (the fast path); validating it again is offered, not
required. Our own environment needs its gates under any name and from any workspace.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Runtime
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.pulled import PULL
from prime_lab_mcp.lab.state.snapshot import take_snapshot

"""The name of the pulling tool, under which the ledger notes a pull. No gate asks for these rows."""
_JUDGES = ("check_environment", "test_reward", "check_reward_distribution")


@dataclass(frozen=True, slots=True)
class FileFingerprints:
    """The fingerprints of the files of a Hub environment. `cli_hash` is the Hub's own hash, which is a hint."""

    cli_hash: str | None = None
    source: str | None = None
    content: str | None = None

    def matches(self, row: dict[str, Any]) -> bool:
        """True if a row names the same files; rows of earlier versions know the CLI's hash alone."""
        pairs = [(self.source, row.get("source")), (self.content, row.get("content"))]
        if not any(recorded for _, recorded in pairs) or not any(own for own, _ in pairs):
            pairs = [(self.cli_hash, row.get("cli_hash"))]
        return any(own and own == recorded for own, recorded in pairs)


@dataclass(frozen=True, slots=True)
class Ownership:
    """The facts that decide who owns a name, gathered once for a call."""

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
        is_recorded = lab.ledger.knows_files(source=files.source, content=files.content, cli_hash=files.cli_hash)
        return is_recorded and not any(files.matches(row) for row in self.pulled)


async def read_ownership(lab: Lab, prime: PlatformReader | None = None) -> Ownership:
    """Ask the account and read the workspace. Never raises."""
    owners = await _owners(prime or lab.prime)
    names = await anyio.to_thread.run_sync(_local_names, lab)
    rows = lab.ledger.evidence(tool=PULL)
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
        snapshot = await anyio.to_thread.run_sync(
            take_snapshot, lab.workspace.environment(folder.name), lab.settings.snapshots
        )
    except LabError:
        return  # what cannot be read as an environment is in no snapshot either
    owner, _, name = ref.partition("@")[0].partition("/")
    ownership = await read_ownership(lab)
    files = FileFingerprints(snapshot.cli_hash, snapshot.source, snapshot.content)
    if lab.ledger.knows_files(source=files.source, content=files.content, cli_hash=files.cli_hash):
        return
    if ownership.owners is not None and ownership.is_ours(lab, owner, name, files):
        return
    lab.ledger.record(
        Evidence(
            PULL,
            "passed",
            lab.key,
            folder.name,
            arguments={"hub": ref},
            platform=lab.platform,
            data={"pulled": ref, "cli_hash": snapshot.cli_hash, "source": snapshot.source, "content": snapshot.content},
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


_WHY: dict[Runtime | None, tuple[bool | None, str]] = {
    "v1": (True, "it is a verifiers v1 environment"),
    "v0": (False, "it is a v0 environment: it can be tested, evaluated and pushed, but the platform trains only v1"),
    None: (None, "the Hub does not say which verifiers generation it is; pull it and run check_environment"),
}
_GATES = (
    "It is yours, so it keeps its gates under any name and from any workspace: check_environment, test_reward and "
    "check_reward_distribution on exactly the files that push_environment published, for the model to be trained."
)
_BY_HAND = (
    " But no push_environment published them from this machine: push its files with that first, or pull it "
    "(create_environment with hub) and prove it here."
)
_FAST = (
    "It is not yours and v1, so it can be trained as it is: write_training_config, then submit_training. "
    "Nothing has to be validated again."
)


@dataclass(frozen=True, slots=True)
class TrainingCandidate:
    """A Hub environment judged for training. `version` is the requested version, or the latest."""

    entry: HubEntry
    version: str | None
    runtime: Runtime | None
    ours: bool
    pushes: tuple[Push, ...]
    """Pushes of this name from this machine, newest first."""
    workspace: str

    @property
    def pinned(self) -> str:
        return f"{self.entry.ref}@{self.version}" if self.version else self.entry.ref

    @property
    def trainable(self) -> bool | None:
        return _WHY[self.runtime][0]

    @property
    def fast(self) -> bool:
        """Whether it may be trained without local evidence."""
        return bool(self.trainable) and not self.ours and self.version is not None

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "runtime": self.runtime,
            "trainable": self.trainable,
            "why": _WHY[self.runtime][1],
            "ours": self.ours,
            "pushed_from_here": [p.version for p in self.pushes][:5],
            "fast_path": self.fast,
        }
        if self.ours:
            fields["gates"] = _GATES + ("" if self.pushes else _BY_HAND)
        elif self.fast:
            fields["gates"] = _FAST
            fields["offered"] = [call.as_json() for call in self.offered()]
        return fields

    def offered(self) -> tuple[Next, ...]:
        """The calls that would validate the environment again, each with what it shows."""
        name = self.entry.name.replace("-", "_")
        local = {"environment": name}
        return (
            Next(
                "create_environment",
                "pulls it to read: its code, its data, what its reward pays for",
                {"name": name, "hub": self.pinned},
            ),
            Next("check_environment", "shows whether it loads, and flaws of its tasks: leaks, duplicates, gold", local),
            Next("test_reward", "shows whether the reward pays gold answers, refuses wrong ones, can be hacked", local),
            Next(
                "run_eval",
                "shows, with the model to be trained, what share of groups would carry a gradient",
                {**local, "model": "MODEL"},
            ),
        )

    def next(self) -> tuple[Next, ...]:
        if self.ours:
            return self._next_of_ours()
        train: list[Next] = []
        if self.fast:
            train = [
                Next("write_training_config", "train on it as it is", {"environments": [self.pinned]}),
                Next(
                    "submit_training",
                    "or at once: writes and checks a config, then asks with the price before anything is spent",
                    {"environment": self.pinned},
                ),
            ]
        name = self.entry.name.replace("-", "_")
        pull = "only if you want to read, validate or change it" if self.fast else "pull it to read or change it"
        return (*train, Next("create_environment", pull, {"name": name, "hub": self.pinned}))

    def _next_of_ours(self) -> tuple[Next, ...]:
        here = next((p.environment for p in self.pushes if p.workspace == self.workspace), None)
        status = Next(
            "workflow_status",
            "which of its gates are open here, and the next call",
            {"environment": here} if here else None,
        )
        if not self.trainable:
            return (status,)
        return (status, Next("write_training_config", "once they are", {"environments": [self.pinned]}))


async def training_candidate(lab: Lab, entry: HubEntry, version: str | None) -> TrainingCandidate:
    """Judge a Hub environment. Reads the package's source where the Hub has no label for the version."""
    runtime = await lookup.runtime_at(lab.prime, entry, version)
    pushes = lab.ledger.pushes(owner=entry.owner, name=entry.name, platform=lab.platform)
    ownership = await read_ownership(lab)
    ours = ownership.is_ours(lab, entry.owner, entry.name, FileFingerprints(entry.hash_of(version)))
    return TrainingCandidate(entry, version or entry.version, runtime, ours, tuple(pushes), lab.key)
