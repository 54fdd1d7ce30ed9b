"""Records comparisons of two environments' rewards, so that the question of a push can name the newest one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.base.report import Verdict
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot

COMPARED = "compare_rewards"
"""The tool of the ledger rows. No gate reads them: a difference does not say which of the two rewards is wrong."""

EQUAL_VERDICTS = ("equal", "equal-where-reached")
"""Verdicts of comparisons that found no completion with different shares."""


def record_comparison(ledger: Ledger, workspace: str, snapshot: Snapshot, data: Mapping[str, Any]) -> None:
    """Record a comparison of these files: `environment`, `verdict`, `completions`, `differ` and `verifiers`."""
    status: Verdict = "passed" if str(data.get("verdict")) == "equal" else "failed"
    ledger.record(
        Evidence(COMPARED, status, workspace, snapshot.name, snapshot.source, snapshot.content, data=dict(data))
    )


def comparison_sentence(ledger: Ledger, workspace: str, snapshot: Snapshot) -> str:
    """Return a sentence about the newest comparison of these files, for the question of a push; empty without one."""
    row = next(iter(ledger.evidence(workspace, tool=COMPARED, source=snapshot.source)), None)
    if row is None:
        return ""
    name, completions = quote(str(row.data.get("environment")), 80), row.data.get("completions")
    number = count(completions, "completion") if isinstance(completions, int) else "its completions"
    sentence = {
        "equal": f"it pays the same as {name} for {number} tried and each component",
        "equal-where-reached": (
            f"it pays the same as {name} for {number} tried, which did not reach every component and task"
        ),
        "not-compared": f"too little could be compared with {name} to call it equal",
    }.get(str(row.data.get("verdict")), f"{row.data.get('differ')} of {number} earned something else than in {name}")
    absent = row.data.get("absent_tasks")
    missing = f"; {count(absent, 'task')} of {name} are missing here" if isinstance(absent, int) and absent else ""
    return f" By the last comparison, {sentence}{missing}."
