"""Records which environments were pulled from another owner, and that a person agreed to run their code unconfined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot

PULL = "create_environment"
"""The tool of the ledger rows that record a pull. Their data has `pulled`, `source` and `content`."""
_AGREED = "run_pulled"


@dataclass(frozen=True, slots=True)
class PulledFiles:
    """An environment on the Hub, and the fingerprint of its files as they were pulled."""

    ref: str
    source: str


class PulledUnconfined(LabError):
    """Another owner's code may not run on a kernel that does not confine it, unless a person agreed."""

    default_code = "pulled-unconfined"

    def __init__(self, pulled: PulledFiles, snapshot: Snapshot) -> None:
        super().__init__(
            f"{snapshot.name} was pulled from {quote(pulled.ref, 120)}, and nothing on this machine confines its code",
            fix="Ask the user: only a person can agree to run it (in the client, or with prime-lab-mcp approve).",
        )
        self.pulled = pulled


def unagreed_pull(ledger: Ledger, workspace: str, snapshot: Snapshot) -> PulledFiles | None:
    """Return the pull that a snapshot comes from; None if there is none, or if a person agreed to run its code.

    A snapshot comes from a pull if any workspace pulled the same files, or if this workspace pulled into the same
    folder: after an edit, the rest of the code is still another owner's. An agreement also covers later edits.
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
    """The folder into which this workspace last pulled `owner/name` at this version; None if it never did."""
    for row in ledger.evidence(workspace, tool=PULL):
        known, _, of = str(row.data.get("pulled") or "").partition("@")
        if row.environment and known == f"{owner}/{name}" and version in (None, of):
            return row.environment
    return None


def pulled_source(ledger: Ledger, workspace: str, owner: str, name: str, version: str | None) -> tuple[str, str] | None:
    """The folder and source fingerprint of `pulled_as`, as the files were when they were pulled."""
    for row in ledger.evidence(workspace, tool=PULL):
        known, _, of = str(row.data.get("pulled") or "").partition("@")
        source = row.data.get("source")
        if row.environment and isinstance(source, str) and known == f"{owner}/{name}" and version in (None, of):
            return row.environment, source
    return None


def schema_of_pull(
    ledger: Ledger, workspace: str, owner: str, name: str, version: str | None
) -> Mapping[str, Any] | None:
    """The keys that the taskset of a pulled environment takes, as its source said when it was pulled; None if unknown.

    It is a JSON schema without the types of the keys.
    """
    for row in ledger.evidence(workspace, tool=PULL):
        known, _, of = str(row.data.get("pulled") or "").partition("@")
        fields = row.data.get("taskset_fields")
        if known == f"{owner}/{name}" and version in (None, of) and isinstance(fields, list):
            names = ("id", "task", "system_prompt", *map(str, fields))
            return {"type": "object", "additionalProperties": False, "properties": {name: {} for name in names}}
    return None


def pull_of_folder(ledger: Ledger, workspace: str, folder: str) -> PulledFiles | None:
    """The latest pull into a folder of this workspace; None if the folder holds no pulled environment."""
    return next(_pulls(ledger.evidence(workspace, tool=PULL, environment=folder)), None)


def pull_of_source(ledger: Ledger, source: str) -> PulledFiles | None:
    """The latest pull of exactly these files, into whatever folder or workspace; None if they were never pulled."""
    return next((pull for pull in _pulls(ledger.evidence(tool=PULL)) if pull.source == source), None)


def _pulls(rows: Iterable[Evidence]) -> Iterator[PulledFiles]:
    for row in rows:
        ref, source = row.data.get("pulled"), row.data.get("source")
        if isinstance(ref, str) and isinstance(source, str):
            yield PulledFiles(ref, source)


def record_agreement(ledger: Ledger, workspace: str, pulled: PulledFiles) -> None:
    """Record that a person agreed to run the pulled code without confinement."""
    data = {"pulled": pulled.ref}
    ledger.record(Evidence(_AGREED, "passed", workspace, None, source=pulled.source, data=data))
