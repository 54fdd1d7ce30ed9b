"""Publishing one snapshot: where it goes, whether it is there already, sending it at most once, and what the Hub holds.

The push runs in a writable copy in the state directory, so nothing is built or written in the user's folder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

from prime_lab_mcp.lab import hub
from prime_lab_mcp.lab.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.hub import Entry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.manifest import next_version, no_version
from prime_lab_mcp.lab.prime.answers import Pushed, Runtime
from prime_lab_mcp.lab.prime.client import Visibility
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.records import Push
from prime_lab_mcp.lab.refused_push import explained
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.snapshot import Snapshot, verify
from prime_lab_mcp.lab.text import quote

Bump = Literal["patch", "minor", "major"]
IN_FLIGHT_SECONDS = 660.0
"""A push of another server that began less than this ago (prime's own limit and a margin) may still be running."""

PLAN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller asked for. At most one of `owner` and `team`."""

    owner: str | None = None
    team: str | None = None
    visibility: Visibility | None = None
    bump: Bump | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a snapshot goes. `present`: the version under which the Hub holds these very files already."""

    owner: str
    name: str
    version: str
    bumped_from: str | None
    visibility: Visibility | None
    """What is asked of the Hub; None leaves it as it is."""
    entry: Entry
    present: str | None = None
    problem: Finding | None = None

    @property
    def ref(self) -> str:
        return f"{self.owner}/{self.name}"


_MADE: WeakKeyDictionary[Lab, tuple[float, str, Wish, Target]] = WeakKeyDictionary()


async def plan(lab: Lab, snapshot: Snapshot, wish: Wish) -> Target:
    """Settle owner, name and version from the account, the manifest and the Hub. Raises LabError.

    A plan made moments ago for the same files and wish stands: a call makes it for the question and for the deed.
    """
    made = _MADE.get(lab)
    if made is not None and made[1:3] == (snapshot.content, wish) and time.monotonic() - made[0] < PLAN_SECONDS:
        return made[3]
    target = await _plan(lab, snapshot, wish)
    _MADE[lab] = (time.monotonic(), snapshot.content, wish, target)
    return target


async def _plan(lab: Lab, snapshot: Snapshot, wish: Wish) -> Target:
    manifest = snapshot.manifest
    if manifest.name is None:
        raise BadInput(
            f"pyproject.toml of {snapshot.name} states no literal name under [project]",
            fix=f'Add it, e.g. name = "{snapshot.name}".',
            code="no-name",
        )
    if manifest.version is None:
        raise no_version(manifest)
    if wish.owner and wish.team:
        raise BadInput("owner and team name two places", fix="Pass owner or team, not both.", code="bad-input")
    owner = wish.owner or wish.team or await _own_name(lab)
    entry = await hub.look_up(lab.prime, owner, manifest.name, versions=True)
    if entry.exists is None:
        raise entry.problem or PrimeError("the Hub could not be asked", fix="Call again.", code="platform-unreachable")
    visibility = wish.visibility or (None if entry.exists else "PRIVATE")
    target = Target(owner, manifest.name, manifest.version, None, visibility, entry)
    present = entry.version_with(snapshot.cli_hash)
    if present is not None:
        return replace(target, present=present)
    return _with_version(lab, snapshot, target, wish.bump)


def _with_version(lab: Lab, snapshot: Snapshot, target: Target, bump: Bump | None) -> Target:
    pushed = {
        p.version
        for p in lab.ledger.pushes(owner=target.owner, name=target.name, platform=lab.platform)
        if p.cli_hash != snapshot.cli_hash
    }

    def taken(version: str) -> bool:
        return target.entry.holds(version) or version in pushed

    if not taken(target.version):
        return target
    if bump is None:
        return replace(target, problem=_version_taken(target))
    version = next_version(target.version, bump)
    while taken(version):
        version = next_version(version, bump)
    return replace(target, version=version, bumped_from=target.version)


def _version_taken(target: Target) -> Finding:
    return Finding(
        "version-taken",
        "blocker",
        f"version {target.version} of {target.ref} was published already, with other content",
        'Call push_environment again with bump="patch"; it raises the version in pyproject.toml.',
        where="pyproject.toml",
    )


async def _own_name(lab: Lab) -> str:
    """The owner that `prime env push` takes without being told: the configured team, else the user."""
    account = await lab.prime.account()
    if account.team_id:
        for team in await lab.prime.teams():
            if team.id == account.team_id:
                return team.slug
        raise PrimeError(
            f"the account's active team {quote(account.team or account.team_id, 80)} is not among its teams",
            fix="Pass owner or team, or ask the user to choose a team with `prime switch`.",
            code="platform-forbidden",
        )
    if account.user is None:
        raise PrimeError(
            "the account has no public user name yet, which publishing needs",
            fix="Ask the user to run `prime env push` once in a terminal and choose one, or pass team.",
            code="username-missing",
        )
    return account.user


def key(lab: Lab, snapshot: Snapshot, target: Target) -> str:
    """Identity of the intent: these files less their version, under this name, version and visibility."""
    project = dict(snapshot.manifest.project)
    project.pop("version", None)
    files = {path: digest for path, digest in snapshot.files.items() if path != "pyproject.toml"}
    parts = [
        {**snapshot.manifest.table, "project": project}, files,
        target.ref, target.version, target.visibility, lab.platform,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Published:
    """What came of it. `sent` False: the Hub held it already."""

    version: str
    entry: Entry
    sent: bool
    pushed: Pushed | None = None


async def send(lab: Lab, snapshot: Snapshot, target: Target, intent: str, runtime: Runtime, wish: Wish) -> Published:
    """Push once. Whatever happens on the way, the Hub is asked before anything is sent again. Raises LabError."""
    verify(snapshot)
    _MADE.pop(lab, None)
    claim = lab.ledger.claim(intent, "push", lab.platform)
    if claim.state == "sent" and not claim.mine and time.time() - claim.at < IN_FLIGHT_SECONDS:
        raise _in_flight(target)
    if claim.state != "open":
        # The plan has just seen that the Hub does not hold it: an earlier attempt did not get through.
        lab.ledger.release(intent, lab.platform, attempt=claim.attempt if claim.state == "sent" else None)
        claim = lab.ledger.claim(intent, "push", lab.platform)
        if claim.state != "open":
            raise _in_flight(target)  # another server came to the same conclusion first
    try:
        with _copy(lab, snapshot) as folder:
            pushed = await lab.prime.env_push(
                folder, owner=wish.owner, team=wish.team, visibility=target.visibility, runtime=runtime
            )
    except Refusal as refused:
        return await _settle(lab, snapshot, target, intent, claim.attempt, refused)
    except OSError as error:
        lab.ledger.release(intent, lab.platform, attempt=claim.attempt)
        raise LabError(
            f"the copy to push from could not be made: {error.strerror}",
            fix="Check that the state directory is writable and its disk not full, then call again.",
            code="state-unwritable",
        ) from error
    lab.ledger.settle(intent, lab.platform, {"version": target.version})
    return Published(target.version, await _look(lab, snapshot, target), True, pushed)


def _in_flight(target: Target) -> PrimeError:
    return PrimeError(
        f"another server is pushing {target.ref} {target.version} right now",
        fix="Wait until it is done, then call again.",
        code="push-in-flight",
    )


async def _settle(
    lab: Lab, snapshot: Snapshot, target: Target, intent: str, attempt: int, refused: Refusal
) -> Published:
    """After a failure: success when the Hub holds these files, a clean slate when not, else an open question."""
    if refused.effect == "none" and refused.code != "platform-conflict":
        lab.ledger.release(intent, lab.platform, attempt=attempt)
        raise await explained(lab, target.owner, target.name, refused)
    entry = await _look(lab, snapshot, target)
    if entry.exists is None:
        raise PrimeError(
            f"whether {target.ref} {target.version} was published is not known: {refused.message}",
            fix="Call push_environment again when the platform answers; it looks before it sends.",
            code="push-outcome-unknown",
        ) from refused
    version = entry.version_with(snapshot.cli_hash)
    if version is None:
        lab.ledger.release(intent, lab.platform, attempt=attempt)
        raise await explained(lab, target.owner, target.name, refused)
    lab.ledger.settle(intent, lab.platform, {"version": version})
    return Published(version, entry, refused.code != "platform-conflict")


async def _look(lab: Lab, snapshot: Snapshot, target: Target) -> Entry:
    """What the Hub holds now; its older versions only where the newest is another one."""
    entry = await hub.look_up(lab.prime, target.owner, target.name)
    if entry.exists and entry.content_hash != snapshot.cli_hash:
        return await hub.look_up(lab.prime, target.owner, target.name, versions=True)
    return entry


def record(lab: Lab, snapshot: Snapshot, target: Target, published: Published, runtime: Runtime) -> Push:
    """Remember the push, once per version and content."""
    hub_hash = published.entry.hash_of(published.version)
    push = Push(
        workspace=lab.key,
        environment=snapshot.name,
        owner=target.owner,
        name=target.name,
        version=published.version,
        source=snapshot.source,
        content=snapshot.content,
        cli_hash=snapshot.cli_hash,
        platform=lab.platform,
        hub_hash=hub_hash,
        api=runtime,
        verified="hub" if hub_hash == snapshot.cli_hash else "sent",
    )
    same = (push.version, push.content, push.verified)
    known = lab.ledger.pushes(owner=push.owner, name=push.name, platform=lab.platform, workspace=lab.key)
    if same not in {(p.version, p.content, p.verified) for p in known}:
        lab.ledger.record_push(push)
    return push


@contextmanager
def _copy(lab: Lab, snapshot: Snapshot) -> Iterator[Path]:
    """The snapshot's files where a build may write. Removed afterwards."""
    root = lab.settings.state_dir / "push"
    root.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=root))
    try:
        # Build backends look for ignore files in the folders above until they meet this.
        (scratch / ".git").mkdir()
        folder = scratch / snapshot.name
        for path in snapshot.files:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((snapshot.tree / path).read_bytes())
        yield folder
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
