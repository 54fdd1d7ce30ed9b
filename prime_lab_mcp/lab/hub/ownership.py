"""Decides whose a Hub environment is: ours where it was pushed from here or its content was made here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.state.snapshot import take_snapshot

_PULL = "create_environment"
"""The name of the pulling tool, under which the ledger notes a pull. No gate asks for these rows."""


def is_ours(lab: Lab, ref: str, content_hash: str | None, pushes: Sequence[Push], records: set[str]) -> bool:
    """Whether `owner/name` on the Hub is ours: pushed from here, or with content that this machine knows."""
    if pushes or ref in records:
        return True
    return bool(content_hash and lab.ledger.knows_content(content_hash)) and content_hash not in _pulled(lab)


def note_pulled(lab: Lab, ref: str, folder: Path) -> None:
    """Record that these files came from the Hub and were unknown here, so that reading them does not make them ours.

    Without this record, validating another owner's environment would close the fast path for it.
    """
    try:
        taken = take_snapshot(lab.workspace.environment(folder.name), lab.settings.snapshots)
    except LabError:
        return  # what cannot be read as an environment is in no snapshot either
    owner, _, name = ref.partition("@")[0].partition("/")
    pushed = lab.ledger.pushes(owner=owner, name=name, platform=lab.platform)
    if pushed or f"{owner}/{name}" in push_records(lab) or lab.ledger.knows_content(taken.cli_hash):
        return
    lab.ledger.record(
        Evidence(
            _PULL,
            "passed",
            lab.key,
            folder.name,
            arguments={"hub": ref},
            platform=lab.platform,
            data={"pulled": ref, "cli_hash": taken.cli_hash},
        )
    )


def push_records(lab: Lab) -> set[str]:
    """`owner/name` of every push that the CLI recorded in a folder of this workspace."""
    found = set()
    for folder in lab.workspace.list_environments():
        path = folder.path / ".prime" / ".env-metadata.json"
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if "pushed_at" in record:  # a pulled environment has the same file, with pulled_at
                found.add(f"{record['owner']}/{record['name']}")
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _pulled(lab: Lab) -> set[str]:
    """CLI hashes of content that any workspace pulled from another owner."""
    rows = lab.ledger.evidence(tool=_PULL)
    return {str(row.data.get("cli_hash")) for row in rows if row.platform == lab.platform and row.data.get("pulled")}
