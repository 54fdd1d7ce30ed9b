"""Decides whether the user owns a Hub environment, and which evidence training on it needs.

An environment belongs to the user if its owner is the logged-in account or one of its teams, if this machine pushed it,
or if its files were made here. It belongs to somebody else only if account and teams were both asked and none of this
holds; if one of them could not be asked, whose it is remains unknown, and the gates stay closed. An environment that
was first pulled from another owner still belongs to that owner. Files in a folder (`.prime/.env-metadata.json`) prove
nothing, because anybody can write them.

Another owner's v1 environment can be used in a config without local evidence (the fast path); validating it again is
optional. The user's own environment needs the evidence of its gates under any name and from any workspace.
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
from prime_lab_mcp.lab.state.arguments import taskset_fields
from prime_lab_mcp.lab.state.config_gate import unknown_owner
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.pulled import PULL
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.lab.state.source_code import read_source
from prime_lab_mcp.lab.state.workspace import Workspace

_MOST_TEAMS = 100
"""Teams that `prime teams list` names at most (prime 0.18.0)."""
_JUDGING_TOOLS = ("check_environment", "test_reward", "check_reward_distribution")


@dataclass(frozen=True, slots=True)
class FileFingerprints:
    """The fingerprints of the files of a Hub environment. `cli_hash` is the Hub's own hash and only a hint."""

    cli_hash: str | None = None
    source: str | None = None
    content: str | None = None

    def matches(self, row: dict[str, Any]) -> bool:
        """True if a row names the same files. Rows of earlier versions contain only the CLI's hash."""
        pairs = [(self.source, row.get("source")), (self.content, row.get("content"))]
        if not any(recorded for _, recorded in pairs) or not any(own for own, _ in pairs):
            pairs = [(self.cli_hash, row.get("cli_hash"))]
        return any(own and own == recorded for own, recorded in pairs)


@dataclass(frozen=True, slots=True)
class Ownership:
    """The facts that decide who owns an environment. They are read once for each call."""

    owners: frozenset[str]
    """Names of the account and its teams in lower case, as far as they could be asked."""
    unasked: str
    """Why not all names of the user could be asked; empty if they could."""
    local_names: frozenset[str]
    """Project names of this workspace's folders, and `owner/name` of the CLI's records in them."""
    pulled: tuple[dict[str, Any], ...]
    """Data of the ledger rows about pulls of files that were unknown on this machine before."""

    def is_ours(self, lab: Lab, owner: str, name: str, files: FileFingerprints) -> bool:
        """Whether an environment is known to be the user's own. If not, `unasked` says whether it may be all the
        same."""
        if owner.lower() in self.owners:
            return True
        if lab.ledger.pushes(owner=owner, name=name, platform=lab.platform):
            return True
        if self.made_here(lab, files):
            return True
        return bool(self.unasked) and bool({_project(name), f"{owner}/{name}"} & self.local_names)

    def made_here(self, lab: Lab, files: FileFingerprints) -> bool:
        """Whether a workspace of this machine recorded these files, and did not pull them from another owner."""
        is_recorded = lab.ledger.knows_files(source=files.source, content=files.content, cli_hash=files.cli_hash)
        return is_recorded and not any(files.matches(row) for row in self.pulled if not self._is_own_pull(row))

    def _is_own_pull(self, row: dict[str, Any]) -> bool:
        """Whether files were pulled from an owner who is now known to be the user. While the owners could not be
        asked, such a pull is recorded like one of another owner's files."""
        return str(row["pulled"]).partition("/")[0].lower() in self.owners


async def read_ownership(lab: Lab, prime: PlatformReader | None = None) -> Ownership:
    """Ask for the account and its teams, and read the workspace and the ledger. Never raises."""
    owners, unasked = await _owners(prime or lab.prime)
    names = await anyio.to_thread.run_sync(_local_names, lab)
    rows = lab.ledger.evidence(tool=PULL)
    pulled = tuple(dict(row.data) for row in rows if row.platform == lab.platform and row.data.get("pulled"))
    return Ownership(owners, unasked, names, pulled)


async def _owners(prime: PlatformReader) -> tuple[frozenset[str], str]:
    """The names of the account and its teams, and why some may be missing."""
    names: list[str | None] = []
    unasked: list[str] = []
    try:
        names.append((await prime.account()).user)
    except LabError as error:
        unasked.append(f"the account could not be asked ({error.message})")
    try:
        teams = await prime.teams()
        names += [team.slug for team in teams]
        if len(teams) >= _MOST_TEAMS:
            unasked.append(f"the account has {len(teams)} teams, and more are not listed")
    except LabError as error:
        unasked.append(f"its teams could not be asked ({error.message})")
    return frozenset(name.lower() for name in names if name), "; ".join(unasked)


def failed_verdicts(lab: Lab, source: str | None) -> tuple[str, ...]:
    """Describe the tools whose latest verdict on files with this source fingerprint, in any workspace, failed."""
    if not source:
        return ()
    failed: list[str] = []
    for tool in _JUDGING_TOOLS:
        rows = lab.ledger.evidence(tool=tool, source=source)
        latest = next((row for row in rows if row.platform in (None, lab.platform)), None)
        if latest is not None and latest.status == "failed":
            failed.append(f"{tool} ({', '.join(latest.blockers[:3])})")
    return tuple(failed)


async def note_pulled(lab: Lab, ref: str, folder: Path) -> None:
    """Record that these files were pulled from another owner and were unknown here before.

    Without this record, the first check of the pulled environment would make its files count as the user's own, and the
    fast path would be closed.
    """
    try:
        snapshot = await anyio.to_thread.run_sync(
            take_snapshot, lab.workspace.environment(folder.name), lab.settings.snapshots
        )
    except LabError:
        return  # an unreadable environment has no snapshot, so its files cannot count as the user's own
    owner, _, name = ref.partition("@")[0].partition("/")
    version = snapshot.manifest.version
    pinned = f"{ref}@{version}" if version and "@" not in ref else ref
    ownership = await read_ownership(lab)
    files = FileFingerprints(snapshot.cli_hash, snapshot.source, snapshot.content)
    if lab.ledger.knows_files(source=files.source, content=files.content, cli_hash=files.cli_hash):
        return
    if not ownership.unasked and ownership.is_ours(lab, owner, name, files):
        return
    lab.ledger.record(
        Evidence(
            PULL,
            "passed",
            lab.key,
            folder.name,
            arguments={"hub": ref},
            platform=lab.platform,
            data={
                "pulled": pinned,
                "cli_hash": snapshot.cli_hash,
                "source": snapshot.source,
                "content": snapshot.content,
                "taskset_fields": await anyio.to_thread.run_sync(lambda: taskset_fields(read_source(snapshot))),
            },
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
_NOT_PUSHED_HERE = (
    " But no push_environment published them from this machine: push its files with that first, or pull it "
    "(create_environment with hub) and prove it here."
)
_FAST = (
    "It is not yours and v1, so it can be trained as it is: write_training_config, then submit_training. "
    "Nothing has to be validated again. How many tasks it has, what its reward pays and whether it holds tasks out is "
    "known once it is pulled and checked here, which is free: a config that is written before that guesses."
)


@dataclass(frozen=True, slots=True)
class TrainingCandidate:
    """A Hub environment, with the facts that decide whether it can be trained. `version` defaults to the latest."""

    entry: HubEntry
    version: str | None
    runtime: Runtime | None
    ours: bool
    pushes: tuple[Push, ...]
    """Pushes of this name from this machine, newest first."""
    workspace: str
    unasked: str = ""
    """Why it is not known whether the environment is the user's own; empty where that is known."""

    @property
    def pinned(self) -> str:
        return f"{self.entry.ref}@{self.version}" if self.version else self.entry.ref

    @property
    def trainable(self) -> bool | None:
        return _WHY[self.runtime][0]

    @property
    def fast(self) -> bool:
        """Whether the environment may be trained without local evidence."""
        return bool(self.trainable) and not self.ours and not self.unasked and self.version is not None

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
            fields["gates"] = _GATES + ("" if self.pushes else _NOT_PUSHED_HERE)
        elif self.unasked:
            fields["gates"] = unknown_owner(self.pinned, self.unasked)
        elif self.fast:
            fields["gates"] = _FAST
            fields["offered"] = [call.as_json() for call in self.offered()]
        return fields

    def offered(self) -> tuple[Next, ...]:
        """The calls that would pull and validate the environment, each with the question that it answers."""
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
        pull = "pull it to read or change it"
        if self.fast:
            pull = (
                "free, before money is spent: how many tasks it has, whether some are held out, what its reward pays; "
                "then run_eval with the model to be trained"
            )
        pulled = Next("create_environment", pull, {"name": name, "hub": self.pinned})
        if self.fast and (Path(self.workspace) / "environments" / name).is_dir():
            return tuple(train)
        if self.runtime != "v0":
            return (pulled, *train)
        why, free = "then port it to v1, which can be trained", Workspace(Path(self.workspace)).free_port_name(name)
        return (pulled, Next("create_environment", why, {"name": free, "port": name}))

    def _next_of_ours(self) -> tuple[Next, ...]:
        here = next((p.environment for p in self.pushes if p.workspace == self.workspace), None)
        folders = Path(self.workspace) / "environments"
        if here is None or not (folders / here).is_dir():
            name = self.entry.name.replace("-", "_")
            why = "its files are not in this workspace: pull what was pushed, whose proofs still hold"
            status = Next("create_environment", why, {"name": name, "hub": self.pinned})
        else:
            why = "which of its gates are open here, and the next call"
            status = Next("workflow_status", why, {"environment": here})
        if not self.trainable:
            return (status,)
        return (status, Next("write_training_config", "once they are", {"environments": [self.pinned]}))


async def training_candidate(lab: Lab, entry: HubEntry, version: str | None) -> TrainingCandidate:
    """Collect the facts about a Hub environment. If the Hub has no label for the version, its source is read."""
    runtime = await lookup.runtime_at(lab.prime, entry, version)
    pushes = lab.ledger.pushes(owner=entry.owner, name=entry.name, platform=lab.platform)
    ownership = await read_ownership(lab)
    ours = ownership.is_ours(lab, entry.owner, entry.name, FileFingerprints(entry.hash_of(version)))
    unasked = "" if ours else ownership.unasked
    return TrainingCandidate(entry, version or entry.version, runtime, ours, tuple(pushes), lab.key, unasked)
