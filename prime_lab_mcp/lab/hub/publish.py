"""Publishes a snapshot: chooses the target, checks whether the Hub holds it, sends at most once, and records the
result.

The push runs in a writable copy in the state directory, so nothing is built or written in the user's folder. If the
platform refuses, the error states a remedy.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import anyio

from prime_lab_mcp.lab.base.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.build_code import may_build
from prime_lab_mcp.lab.environment.wheel import build_wheel_file
from prime_lab_mcp.lab.environment.wheel_archive import wheel_files, wheel_metadata
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.hub_files import (
    ProvenFiles,
    compare_hub_files,
    fetch_hub_files,
    files_digest,
    forget_hub_files,
)
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Pushed, Runtime
from prime_lab_mcp.lab.prime.client import Visibility
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal, had_no_effect
from prime_lab_mcp.lab.state.config_gate import HubContent
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.state.manifest import next_version, no_version_error
from prime_lab_mcp.lab.state.once import AtMostOnce, Delays, Lookup, Once
from prime_lab_mcp.lab.state.snapshot import Snapshot, verify_snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation

_READ_ONLY = frozenset({"VIEWER", "GUEST"})
"""Team roles that may not publish."""


async def explain_refusal(lab: Lab, owner: str, name: str, refused: PrimeRefusal) -> PrimeRefusal:
    """Return the error of a refused push with a remedy: the permitted owners, or the conflict to resolve."""
    if refused.code in ("platform-forbidden", "platform-not-found"):
        fix = Fix(f"{quote(owner, 80)} is not yours to publish under. ", await _owners(lab))
    elif refused.code == "platform-conflict":
        fix = Fix(
            f"The Hub holds this content, or the name {quote(name, 80)}, elsewhere (",
            NamedCall("search_hub", kind="environment", query=...).bare,
            " shows it). Change the files, or [project].name in pyproject.toml, then call ",
            NamedCall("check_environment"),
            " and ",
            NamedCall("push_environment"),
            ".",
        )
    elif refused.code == "payment-required":
        fix = Fix(refused.fix, " Nothing was published; call ", NamedCall("push_environment"), " again afterwards.")
    else:
        return refused
    return PrimeRefusal(refused.message, fix=fix, code=refused.code, effect=refused.effect, problems=refused.problems)


async def _owners(lab: Lab) -> str:
    """A sentence that names the owners under which this account may publish."""
    try:
        account, teams = await lab.prime.account(), await lab.prime.teams()
    except LabError:
        return Fix("Pass no owner for the user's own, or a team of theirs (", NamedCall("preflight"), " shows them).")
    choices = [f"owner={account.user}"] if account.user else []
    choices += [f"team={t.slug}" for t in teams if t.role.upper() not in _READ_ONLY]
    return (
        f"Pass one of: {quote(', '.join(choices), 200)}; or ask the user for the right."
        if choices
        else ("This account has no owner to publish under yet; ask the user to choose a user name on the platform.")
    )


Bump = Literal["patch", "minor", "major"]
# The Hub refuses to publish the same content twice, so a late request has no second effect.
DELAYS = Delays(limit=660.0, landing=0.0, landing_after_failure=0.0)


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The caller's request. At most one of `owner` and `team` is set."""

    owner: str | None = None
    team: str | None = None
    visibility: Visibility | None = None
    bump: Bump | None = None


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """The destination of a snapshot. `present` is the version under which the Hub already holds these files."""

    owner: str
    name: str
    version: str
    bumped_from: str | None
    visibility: Visibility | None
    """The visibility to request of the Hub; None leaves it unchanged."""
    entry: HubEntry
    present: str | None = None
    problem: Finding | None = None

    @property
    def ref(self) -> str:
        return f"{self.owner}/{self.name}"


async def plan_publish(
    lab: Lab, snapshot: Snapshot, request: PublishRequest, platform: PlatformReader | None = None
) -> PublishTarget:
    """Decide owner, name and version from the account, the manifest and the Hub. Raises LabError.

    `platform` caches answers for the current call. Without it, the platform is asked directly.
    """
    prime = platform or lab.prime
    manifest = snapshot.manifest
    if manifest.name is None:
        raise BadInput(
            f"pyproject.toml of {snapshot.name} states no literal name under [project]",
            fix=f'Add it, e.g. name = "{snapshot.name}".',
            code="no-name",
        )
    if manifest.version is None:
        raise no_version_error(manifest)
    if request.owner and request.team:
        raise BadInput("owner and team name two places", fix="Pass owner or team, not both.", code="bad-input")
    owner = request.owner or request.team or await _own_name(lab, prime)
    entry = await lookup.look_up_environment(prime, owner, manifest.name)
    if entry.exists and entry.version_with(snapshot.cli_hash) is None:
        entry = await lookup.look_up_environment(prime, owner, manifest.name, versions=True)
    if entry.exists is None:
        raise entry.problem or PrimeError("the Hub could not be asked", fix="Call again.", code="platform-unreachable")
    visibility = request.visibility or (None if entry.exists else "PRIVATE")
    target = PublishTarget(owner, manifest.name, manifest.version, None, visibility, entry)
    present = entry.version_with(snapshot.cli_hash)
    if present is not None:
        return replace(target, present=present)
    return _with_version(lab, snapshot, target, request.bump)


def _with_version(lab: Lab, snapshot: Snapshot, target: PublishTarget, bump: Bump | None) -> PublishTarget:
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
        return replace(target, problem=_taken_version_finding(target))
    version = next_version(target.version, bump)
    while taken(version):
        version = next_version(version, bump)
    if snapshot.own_files_reader is not None:
        return replace(target, problem=_version_is_source(snapshot, version))
    return replace(target, version=version, bumped_from=target.version)


def _version_is_source(snapshot: Snapshot, version: str) -> Finding:
    return Finding(
        "version-is-source",
        "blocker",
        f"the version counts as source, because the code may read it ({quote(snapshot.own_files_reader or '', 200)}), "
        "so raising it here would push what was not proven",
        Fix(
            f'Set version = "{version}" in pyproject.toml, run ',
            NamedCall("test_reward"),
            " and ",
            NamedCall("run_eval"),
            " again, then push without bump.",
        ),
        where="pyproject.toml",
    )


def _taken_version_finding(target: PublishTarget) -> Finding:
    return Finding(
        "version-taken",
        "blocker",
        f"version {target.version} of {target.ref} was published already, with other content",
        Fix(
            "Call ",
            NamedCall("push_environment").changed(bump="patch").shown('push_environment again with bump="patch"'),
            "; it raises the version in pyproject.toml.",
        ),
        where="pyproject.toml",
    )


async def _own_name(lab: Lab, prime: PlatformReader) -> str:
    """The default owner of `prime env push`: the configured team, else the user."""
    account = await prime.account()
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


def publish_key(lab: Lab, snapshot: Snapshot, target: PublishTarget) -> str:
    """Hash the identity of a push: the files without their version, and name, version and visibility on the Hub.

    What was published and is gone from the Hub is another push: the answer to the question about the first one does
    not count for it.
    """
    project = dict(snapshot.manifest.project)
    project.pop("version", None)
    files = {path: digest for path, digest in snapshot.files.items() if path != "pyproject.toml"}
    parts = [
        {**snapshot.manifest.table, "project": project},
        files,
        target.ref,
        target.version,
        target.visibility,
        lab.platform,
    ]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
    while target.present is None and _is_done(lab, key):
        key = hashlib.sha256(f"{key} again".encode()).hexdigest()
    return key


def _is_done(lab: Lab, key: str) -> bool:
    intent = lab.ledger.intent(key, lab.platform)
    return intent is not None and intent.state == "done"


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The outcome of a push. `was_sent` is False if the Hub already held the files."""

    version: str
    entry: HubEntry
    was_sent: bool
    pushed: Pushed | None = None


async def send_push(
    lab: Lab, snapshot: Snapshot, target: PublishTarget, intent: str, runtime: Runtime, request: PublishRequest
) -> PublishResult:
    """Push a snapshot at most once. After a failure, the Hub is asked before anything is sent again. Raises
    LabError."""
    verify_snapshot(snapshot)
    push = EnvironmentPush(lab, snapshot, target, intent, runtime, request)
    if _is_done(lab, intent):
        existing = (await push.look_up(None)).value
        if existing is not None:
            return replace(existing, was_sent=False)
        raise LabError(
            f"{target.ref} was pushed already and is gone from the Hub, so nothing was sent",
            fix=Fix("Call ", NamedCall("push_environment"), " again; it asks anew."),
            code="intent-changed",
        )
    try:
        settled = await Once(lab.ledger).send(push)
    except PrimeRefusal as refused:
        raise await explain_refusal(lab, target.owner, target.name, refused) from refused
    if settled is None:
        raise push.in_flight()
    return replace(settled.value, was_sent=settled.sent and settled.value.was_sent)


async def require_not_in_flight(
    lab: Lab, snapshot: Snapshot, target: PublishTarget, intent: str, runtime: Runtime
) -> None:
    """Check that no other process is sending this push, and free the claim of one that died. Raises LabError."""
    await Once(lab.ledger).settle(EnvironmentPush(lab, snapshot, target, intent, runtime, PublishRequest()))


@dataclass(frozen=True, slots=True)
class PushedWheel:
    """The wheel that is sent, and the digests of its package files and of its requirements and entry points."""

    path: Path
    files: str
    metadata: str


async def build_pushed_wheel(lab: Lab, snapshot: Snapshot, target: Path) -> PushedWheel:
    """Build the wheel to push in an environment without keys.

    Raises LabError (`wheel-not-pushed`) if the wheel cannot be built.
    """
    try:
        if not may_build(snapshot, lab.ledger.overrides(lab.key)):
            raise LabError(
                "its build runs code that no person has waived",
                fix=Fix("Call ", NamedCall("check_environment"), ", which names the code and the way to waive it."),
            )
        api = detect_generation(snapshot).api
        interpreter = await lab.interpreters.for_package(snapshot.manifest.table, api=api)
        wheel = await build_wheel_file(lab.settings, snapshot, interpreter, target)
        files = files_digest(await anyio.to_thread.run_sync(wheel_files, wheel))
        return PushedWheel(wheel, files, await anyio.to_thread.run_sync(wheel_metadata, wheel))
    except LabError as error:
        raise LabError(
            f"the wheel to push could not be built, so nothing was sent: {error.message}",
            fix=error.fix,
            code="wheel-not-pushed",
        ) from error


async def compare_with_hub(lab: Lab, snapshot: Snapshot, target: PublishTarget, version: str) -> HubContent:
    """Fetch the published files, and compare them with the snapshot and with the wheel that was sent."""
    forget_hub_files(lab, target.ref)
    files = await fetch_hub_files(lab, target.ref, version)
    return compare_hub_files(files, proven_files(lab, snapshot.content, lab.key), f"{target.ref}@{version}")


_SENT_WHEEL = "sent_wheel"
"""The tool name of the ledger rows that record a pushed wheel. No gate reads these rows."""


def proven_files(lab: Lab, content: str, workspace: str) -> ProvenFiles:
    """The hashes of validated files, and the digests of the wheel that this machine sent."""
    rows = lab.ledger.evidence(workspace, tool=_SENT_WHEEL, content=content)
    sent = next((row.data for row in rows if row.platform == lab.platform), {})
    files = lab.ledger.files_of(content=content)
    return ProvenFiles(content, files, sent.get("wheel_files"), sent.get("wheel_metadata"))


def _note_sent_wheel(lab: Lab, snapshot: Snapshot, wheel: PushedWheel) -> None:
    lab.ledger.record(
        Evidence(
            _SENT_WHEEL,
            "passed",
            lab.key,
            snapshot.name,
            snapshot.source,
            snapshot.content,
            platform=lab.platform,
            data={"wheel_files": wheel.files, "wheel_metadata": wheel.metadata},
        )
    )


class EnvironmentPush(AtMostOnce[PublishResult]):
    """The intent to publish one snapshot as one version."""

    kind = "push"
    looks_first = False

    def __init__(
        self, lab: Lab, snapshot: Snapshot, target: PublishTarget, key: str, runtime: Runtime, request: PublishRequest
    ) -> None:
        super().__init__(key, lab.platform, DELAYS)
        self._lab, self._snapshot, self._target = lab, snapshot, target
        self._runtime, self._request = runtime, request

    async def send(self) -> PublishResult:
        lab, target, request = self._lab, self._target, self._request
        try:
            with _copy(lab, self._snapshot) as folder:
                wheel = await build_pushed_wheel(lab, self._snapshot, folder.parent / "wheel")
                _note_sent_wheel(lab, self._snapshot, wheel)
                pushed = await lab.prime.env_push(
                    folder,
                    wheel.path,
                    owner=request.owner,
                    team=request.team,
                    visibility=target.visibility,
                    runtime=self._runtime,
                )
        except OSError as error:
            raise LabError(
                f"the copy to push from could not be made: {error.strerror}",
                fix="Check that the state directory is writable and its disk not full, then call again.",
                code="state-unwritable",
            ) from error
        except PrimeRefusal as refused:
            if refused.code != "platform-conflict":
                raise
            return await self._resolve_conflict(refused)
        return PublishResult(target.version, await _current_entry(lab, self._snapshot, target), True, pushed)

    async def _resolve_conflict(self, refused: PrimeRefusal) -> PublishResult:
        """Return the published version if the Hub already holds these files; else raise the refusal."""
        try:
            existing = (await self.look_up(None)).value
        except LabError as error:
            raise self.unknown(refused.message, 0.0) from error
        if existing is None:
            raise refused
        return replace(existing, was_sent=False)

    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[PublishResult]:
        entry = await _current_entry(self._lab, self._snapshot, self._target)
        if entry.exists is None:
            raise entry.problem or PrimeError(
                "the Hub could not be asked", fix="Call again.", code="platform-unreachable"
            )
        version = entry.version_with(self._snapshot.cli_hash)
        return Lookup(None if version is None else PublishResult(version, entry, True))

    def had_no_effect(self, error: LabError) -> bool:
        return error.code in ("state-unwritable", "wheel-not-pushed") or had_no_effect(error)

    def as_result(self, value: PublishResult) -> Mapping[str, Any]:
        return {"version": value.version}

    def from_result(self, result: Mapping[str, Any]) -> PublishResult:
        return PublishResult(str(result["version"]), self._target.entry, False)

    def in_flight(self) -> LabError:
        return PrimeError(
            f"another server is pushing {self._target.ref} {self._target.version} right now",
            fix="Wait until it is done, then call again.",
            code="push-in-flight",
        )

    def unknown(self, why: str, seconds: float) -> LabError:
        return PrimeError(
            f"whether {self._target.ref} {self._target.version} was published is not known: {why}",
            fix=Fix(
                "Call ", NamedCall("push_environment"), " again when the platform answers; it looks before it sends."
            ),
            code="push-outcome-unknown",
        )


async def _current_entry(lab: Lab, snapshot: Snapshot, target: PublishTarget) -> HubEntry:
    """The current Hub entry. Older versions are requested only if the latest has other content."""
    entry = await lookup.look_up_environment(lab.prime, target.owner, target.name)
    if entry.exists and entry.content_hash != snapshot.cli_hash:
        return await lookup.look_up_environment(lab.prime, target.owner, target.name, versions=True)
    return entry


def record_push(
    lab: Lab,
    snapshot: Snapshot,
    target: PublishTarget,
    published: PublishResult,
    runtime: Runtime,
    content: HubContent,
) -> Push:
    """Record the push in the ledger, once for each version and content.

    `content` is the result of comparing the files on the Hub with the snapshot.
    """
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
        verified="hub" if content.outcome in ("equal", "archive-only") else "sent",
    )
    same = (push.version, push.content, push.verified)
    pushes = lab.ledger.pushes(owner=push.owner, name=push.name, platform=lab.platform, workspace=lab.key)
    if same not in {(p.version, p.content, p.verified) for p in pushes}:
        lab.ledger.record_push(push)
    return push


@contextmanager
def _copy(lab: Lab, snapshot: Snapshot) -> Iterator[Path]:
    """A writable copy of the snapshot's files for the build, removed afterwards."""
    root = lab.settings.state_dir / "push"
    root.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=root))
    try:
        # Build backends look for ignore files in parent folders. They stop at a folder with `.git`.
        (scratch / ".git").mkdir()
        folder = scratch / snapshot.name
        for path in snapshot.files:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((snapshot.tree / path).read_bytes())
        yield folder
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
