"""The workspace, the snapshots of its environments, the ledger of verdicts, and the gates computed from these."""

ENTRY = (
    "arguments",
    "compared_rewards",
    "config_gate",
    "dependency_drift",
    "evaluation_evidence",
    "fingerprint",
    "gates",
    "ledger.database",
    "ledger.ledger",
    "ledger.rows",
    "leftovers",
    "limits",
    "manifest",
    "once",
    "open_warnings",
    "outcome",
    "proven_arguments",
    "pulled",
    "sampling_secret",
    "secret_file",
    "snapshot",
    "source_code",
    "storage",
    "workspace",
)
"""Modules that other packages may import."""
