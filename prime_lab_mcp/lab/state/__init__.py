"""Everything on disk: the workspace, snapshots of its environments and the ledger; and the gates, computed from
these."""

ENTRY = (
    "arguments",
    "evaluation_evidence",
    "fingerprint",
    "gates",
    "ledger.ledger",
    "ledger.rows",
    "manifest",
    "once",
    "outcome",
    "package_gate",
    "snapshot",
    "source_code",
    "workspace",
)
"""Modules that other packages may import."""
