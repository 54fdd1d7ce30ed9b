"""What the page shows of environments: their gates, the evidence behind each, and what was pushed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio

from prime_lab_mcp.dashboard.evaluations import evaluation_row, foreign
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment_status import EnvironmentStatus, environment_status
from prime_lab_mcp.lab.state.gates import NEEDS, TRAINING_NEEDS, Standing
from prime_lab_mcp.lab.state.ledger.rows import Evidence

_HISTORY = 40
"""Verdicts of one environment that are listed, newest first."""
_FACTS: Mapping[str, tuple[str, ...]] = {
    "check_environment": ("tasks", "api", "verifiers_version"),
    "test_reward": ("cases", "gold_pass_rate", "max_reward", "answer_format"),
    "check_reward_distribution": ("mean", "rollouts", "tasks"),
    "push_environment": ("owner", "version", "verified", "visibility"),
    "run_eval": ("tasks", "rollouts", "mean_reward"),
}
"""The tools whose verdicts are shown, and the numbers that the card of each shows."""


async def list_environments(lab: ReadingLab) -> list[dict[str, Any]]:
    """Every environment of the workspace with its gates. One that cannot be read is listed with the reason."""
    listed: list[dict[str, Any]] = []
    for folder in await anyio.to_thread.run_sync(lab.workspace.list_environments):
        try:
            snapshot = await anyio.to_thread.run_sync(lab.snapshots.take, folder)
            status = await environment_status(lab, snapshot)
        except LabError as error:
            listed.append({"name": folder.name, "unreadable": error.message, "fix": error.fix})
            continue
        listed.append(_summary(status))
    return listed


async def environment(lab: ReadingLab, name: str) -> dict[str, Any]:
    """One environment with the evidence behind each gate, its verdicts, pushes and evaluations.

    Raises BadInput (`environment-not-found`).
    """
    folders = await anyio.to_thread.run_sync(lab.workspace.list_environments)
    folder = next((folder for folder in folders if folder.name == name), None)
    if folder is None:
        raise BadInput(
            f"there is no environment {quote(name, 80)} in this workspace",
            fix="Choose one of the list.",
            code="environment-not-found",
        )
    snapshot = await anyio.to_thread.run_sync(lab.snapshots.take, folder)
    status = await environment_status(lab, snapshot)
    return _summary(status) | await anyio.to_thread.run_sync(_history, lab, status)


def _summary(status: EnvironmentStatus) -> dict[str, Any]:
    report = status.as_json()
    return {
        "name": report["name"],
        "api": report["api"],
        "version": report["version"],
        "source": report["source"],
        "content": report["content"],
        "gates": [_gate(gate, status.standings) for gate in report["gates"]],
        "evidence": [
            row | _evidence_facts(standing) for row, standing in zip(report["evidence"], status.standings, strict=True)
        ],
        "next": report["next"],
    }


def _gate(gate: Mapping[str, str], standings: Sequence[Standing]) -> dict[str, Any]:
    """Return a gate with the missing evidence if only that keeps it closed, else with none: `why` says the rest."""
    needs = {need.tool for need in (TRAINING_NEEDS if gate["tool"] == "submit_training" else NEEDS[gate["tool"]])}
    unmet = [standing for standing in standings if standing.why and standing.need.tool in needs]
    alone = gate["why"] == "; ".join(dict.fromkeys(standing.detail for standing in unmet))
    return {**gate, "unmet": [{"tool": one.need.tool, "state": one.why} for one in unmet] if alone else []}


def _evidence_facts(standing: Standing) -> dict[str, Any]:
    row = standing.row
    return {} if row is None else {"at": row.at, "verdict": _verdict(row)}


def _verdict(row: Evidence) -> dict[str, Any]:
    """One verdict of the ledger as the page shows it."""
    data = row.data
    return {
        "id": row.id,
        "tool": row.tool,
        "status": row.status,
        "at": row.at,
        "model": foreign(row.model, 120) if row.model else None,
        "platform": row.platform,
        "env_args": foreign(dict(row.env_args), 400) if row.env_args else None,
        "findings": [dict(finding) for finding in row.findings],
        "facts": {name: data[name] for name in _FACTS.get(row.tool, ()) if _plain(data.get(name))},
        "evaluation": data["id"] if row.tool in ("run_eval", "check_reward_distribution") and "id" in data else None,
        "source": (row.source or "")[:12],
    }


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) <= 80


def _history(lab: ReadingLab, status: EnvironmentStatus) -> dict[str, Any]:
    ledger, snapshot = lab.ledger, status.snapshot
    recorded = ledger.evidence(lab.key, environment=snapshot.name, limit=2 * _HISTORY)
    verdicts = [row for row in recorded if row.tool in _FACTS][:_HISTORY]
    by_id = {str(row.data.get("id")): row for row in verdicts if row.tool == "run_eval"}
    pushes = ledger.pushes(workspace=lab.key, environment=snapshot.name)
    jobs = ledger.jobs(lab.key, environment=snapshot.name, limit=20)
    return {
        "verdicts": [_verdict(row) for row in verdicts],
        "pushes": [
            {
                "version": push.version,
                "owner": push.owner,
                "name": push.name,
                "at": push.at,
                "verified": push.verified,
                "current": push.source == snapshot.source,
            }
            for push in pushes[:20]
        ],
        "evaluations": [evaluation_row(job, by_id.get(job.id)) for job in jobs],
        "left_out": [{"path": foreign(item.path, 200), "why": item.why} for item in snapshot.left_out[:20]],
        "waived": sorted(_waived(lab, (snapshot.source, snapshot.content))),
    }


def _waived(lab: ReadingLab, prints: Iterable[str]) -> set[str]:
    return {code for fingerprint, code in lab.ledger.overrides(lab.key) if fingerprint in prints}
