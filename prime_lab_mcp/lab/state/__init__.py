"""Everything on disk: the workspace, snapshots of its environments and the ledger; and the gates, computed from
these."""

ENTRY = (
    "arguments",
    "dependency_drift",
    "evaluation_evidence",
    "fingerprint",
    "gates",
    "ledger.ledger",
    "ledger.rows",
    "leftovers",
    "manifest",
    "once",
    "outcome",
    "package_gate",
    "pulled",
    "source_gate",
    "snapshot",
    "source_code",
    "upcoming",
    "workspace",
)
"""Modules that other packages may import."""
