"""Where one environment stands on its line from check to push, read from the ledger for the files as they are."""

from __future__ import annotations

from prime_lab_mcp.lab.gates import LINE, Need, Standing, Subject, standing
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.snapshot import Snapshot


def subject_of(snapshot: Snapshot) -> Subject:
    """What evidence about a snapshot is compared with."""
    return Subject(snapshot.name, snapshot.source, snapshot.content, verifiers=_verifiers(snapshot))


def _verifiers(snapshot: Snapshot) -> str | None:
    """The version beside the server, when it is the one this package would get; an interpreter of its own is pinned."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("verifiers")
    except PackageNotFoundError:
        return None
    required = snapshot.manifest.verifiers
    return installed if required is not None and required.specifier.contains(installed) else None


def standings(lab: Lab, snapshot: Snapshot, needs: tuple[Need, ...] = LINE) -> list[Standing]:
    """One standing per need. Evidence counts for these files whatever their folder was called when it was made."""
    subject = subject_of(snapshot)
    waived = lab.ledger.overrides(lab.key)
    rows = lab.ledger.evidence(lab.key, environment=snapshot.name) + [
        row for row in lab.ledger.evidence(lab.key, source=snapshot.source) if row.environment != snapshot.name
    ]
    rows.sort(key=lambda row: (row.at, row.id), reverse=True)
    return [standing(need, rows, subject, lab.platform, waived) for need in needs]


def proven(lab: Lab, snapshot: Snapshot) -> tuple[str, ...]:
    """The tools whose evidence holds for these files, in the order of the line."""
    return tuple(found.need.tool for found in standings(lab, snapshot) if found.why is None)
