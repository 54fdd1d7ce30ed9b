"""Training runs: cost bound and forecast, API keys, submission, control, monitoring and outcome."""

ENTRY = (
    "alerts",
    "anomalies",
    "bound",
    "budget",
    "card",
    "continuation",
    "continued_cost",
    "control",
    "cost",
    "declined",
    "disclosures",
    "evaluations",
    "installed_together",
    "metrics",
    "next_step",
    "outcome",
    "own_runs",
    "preparation",
    "resumption",
    "sources",
    "submission",
    "summary",
    "wallet",
    "watch",
)
"""Modules that other packages may import."""
