"""Environments that were pulled from another owner, and a person's agreement to run their code unconfined."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot

PULL = "create_environment"
"""Tool of the rows that record a pull (`pulled`, `source` and `content` in their data)."""
_AGREED = "run_pulled"


@dataclass(frozen=True, slots=True)
class PulledFiles:
    """An environment on the Hub, and the fingerprint of its files as they were pulled."""

    ref: str
    source: str


def unagreed_pull(ledger: Ledger, workspace: str, snapshot: Snapshot) -> PulledFiles | None:
    """The pulled files that a snapshot consists of or was made from, unless a person agreed to run them.

    A snapshot belongs to a pull by its files in any workspace, or by its folder: an edit by the agent leaves the rest
    of the stranger's code in place. An agreement holds for what was pulled, edits included.
    """
    folder = PurePosixPath(snapshot.relative).name
    agreed = {(row.data.get("pulled"), row.source) for row in ledger.evidence(tool=_AGREED)}
    for row in ledger.evidence(tool=PULL):
        ref, source = row.data.get("pulled"), row.data.get("source")
        if not isinstance(ref, str) or not isinstance(source, str):
            continue
        same_files = snapshot.source == source or snapshot.content == row.data.get("content")
        if (same_files or (row.workspace, row.environment) == (workspace, folder)) and (ref, source) not in agreed:
            return PulledFiles(ref, source)
    return None


def pulled_as(ledger: Ledger, workspace: str, owner: str, name: str, version: str | None) -> str | None:
    """The environment of this workspace that was last pulled from this name on the Hub; None where none was."""
    for row in ledger.evidence(workspace, tool=PULL):
        known, _, of = str(row.data.get("pulled") or "").partition("@")
        if row.environment and known == f"{owner}/{name}" and version in (None, of):
            return row.environment
    return None


def record_agreement(ledger: Ledger, workspace: str, pulled: PulledFiles) -> None:
    """Record that a person agreed to run what was pulled where nothing confines it."""
    data = {"pulled": pulled.ref}
    ledger.record(Evidence(_AGREED, "passed", workspace, None, source=pulled.source, data=data))
