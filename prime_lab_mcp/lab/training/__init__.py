"""Training runs: their price and their keys, submitting one at most once, watching it, and what it came to."""

ENTRY = (
    "alerts",
    "anomalies",
    "bound",
    "budget",
    "card",
    "control",
    "cost",
    "evaluations",
    "keys",
    "metrics",
    "next_step",
    "outcome",
    "own_runs",
    "preparation",
    "sources",
    "submission",
    "summary",
    "watch",
)
"""Modules that other packages may import."""
