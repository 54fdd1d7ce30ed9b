"""What a hosted evaluation would run: the latest version of a name on the Hub, and whether that is what was pushed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import anyio

from prime_lab_mcp.lab import hub
from prime_lab_mcp.lab.errors import BadInput, PrimeError
from prime_lab_mcp.lab.hub import Entry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Push
from prime_lab_mcp.lab.report import Unmet
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.sources import is_ours, push_records
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.workspace import HUB_NAME

_FRESH_SECONDS = 20.0
"""A look made moments ago stands: one call looks for its gate, its question and its deed."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One published environment. `push` is set when it is ours: the push of the very version that will run."""

    entry: Entry
    version: str
    push: Push | None = None
    asked: str | None = None
    """The version that the caller named; the latest runs all the same."""

    @property
    def ref(self) -> str:
        return self.entry.ref

    @property
    def pinned(self) -> str:
        return f"{self.ref}@{self.version}"

    @property
    def proves(self) -> bool:
        """True when the Hub itself says that it holds the files that were proven here."""
        return self.push is not None and self.entry.content_hash == self.push.cli_hash


@dataclass(frozen=True, slots=True)
class Look:
    """`subject` None: refused, and `unmet` says why."""

    subject: Subject | None
    unmet: tuple[Unmet, ...] = ()


_SEEN: WeakKeyDictionary[Lab, tuple[float, tuple[str, str | None], Look]] = WeakKeyDictionary()


async def look(lab: Lab, environment: str, snapshot: Snapshot | None) -> Look:
    """What `environment` (a folder's `snapshot`, else `owner/name[@version]`) means on the Hub now.

    Raises PrimeError when the Hub cannot be asked or has no such environment, BadInput for what is no name.
    """
    about = environment, snapshot.source if snapshot else None
    seen = _SEEN.get(lab)
    if seen is not None and seen[1] == about and time.monotonic() - seen[0] < _FRESH_SECONDS:
        return seen[2]
    found = await (_local(lab, snapshot) if snapshot is not None else _named(lab, environment))
    _SEEN[lab] = (time.monotonic(), about, found)
    return found


async def require(lab: Lab, environment: str, snapshot: Snapshot | None) -> Subject:
    """The subject of a call whose gate was passed. Raises LabError."""
    found = await look(lab, environment, snapshot)
    if found.subject is None:
        reason = found.unmet[0].detail if found.unmet else "it was not pushed"
        raise BadInput(
            f"{quote(environment, 120)} cannot be evaluated on the platform: {reason}",
            fix="Call push_environment; it publishes what was proven.",
            code="hosted-unpublished",
        )
    return found.subject


async def _local(lab: Lab, snapshot: Snapshot) -> Look:
    pushes = lab.ledger.pushes(source=snapshot.source, platform=lab.platform)
    if not pushes:
        return _refused("never-run", f"{snapshot.name} as it is now was not pushed to {_place(lab)}")
    entry = await _asked(lab, pushes[0].owner, pushes[0].name)
    if not entry.exists or entry.version is None:
        return _refused("stale", f"the Hub no longer holds {entry.ref}")
    mine = [p for p in pushes if (p.owner, p.name) == (entry.owner, entry.name)]
    push = _of_latest(mine, entry)
    return _other_latest(mine[0], entry) if push is None else Look(Subject(entry, entry.version, push))


async def _named(lab: Lab, environment: str) -> Look:
    told = HUB_NAME.match(environment)
    if told is None:
        raise BadInput(
            f"{quote(environment, 120)} is neither a folder of the workspace nor owner/name on the Hub",
            fix="Name a folder under environments/, or owner/name; search_hub finds them.",
            code="environment-not-found",
        )
    entry = await _asked(lab, told["owner"], told["name"])
    if not entry.exists or entry.version is None:
        raise PrimeError(
            f"the Hub holds no published version of {entry.ref}",
            fix="Check the name with search_hub; publish one of your own with push_environment.",
            code="platform-not-found",
        )
    pushes = lab.ledger.pushes(owner=entry.owner, name=entry.name, platform=lab.platform)
    records = await anyio.to_thread.run_sync(push_records, lab)
    if not is_ours(lab, entry.ref, entry.content_hash, pushes, records):
        return Look(Subject(entry, entry.version, None, told["version"]))
    push = _of_latest(pushes, entry)
    if push is not None:
        return Look(Subject(entry, entry.version, push, told["version"]))
    if pushes:
        return _other_latest(pushes[0], entry)
    return _refused("never-run", f"{entry.ref} is of files of this machine, but was not pushed through this server")


async def _asked(lab: Lab, owner: str, name: str) -> Entry:
    entry = await hub.look_up(lab.prime, owner, name)
    if entry.exists is None:
        raise entry.problem or PrimeError("the Hub could not be asked", fix="Call again.", code="platform-unreachable")
    return entry


def _of_latest(pushes: list[Push], entry: Entry) -> Push | None:
    """The push whose version and, where the Hub tells it, whose content is the Hub's latest."""
    same = (p for p in pushes if p.version == entry.version)
    return next((p for p in same if entry.content_hash in (None, p.cli_hash)), None)


def _other_latest(push: Push, entry: Entry) -> Look:
    how = "with other content than was pushed" if entry.version == push.version else f"not {push.version}"
    return _refused(
        "stale",
        f"hosted evaluations run the latest version of {entry.ref}, and the Hub's latest is {entry.version}, {how}",
    )


def _refused(why: str, detail: str) -> Look:
    return Look(None, (Unmet("push_environment", "never-run" if why == "never-run" else "stale", detail),))


def _place(lab: Lab) -> str:
    return "the rehearsal Hub" if lab.settings.rehearsal else "the Hub"
