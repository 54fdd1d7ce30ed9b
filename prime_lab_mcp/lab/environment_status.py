"""Where an environment stands: the evidence for its present files, the gates that it opens, and the next call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import present_distributions
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.gates import (
    DEPENDENT,
    EVALUATED,
    FREE,
    NEEDS,
    TRAINING_NEEDS,
    Standing,
    gate_standings,
    installed_verifiers,
    tried_arguments,
    upcoming_call,
)
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation
from prime_lab_mcp.lab.training.next_step import step_after_the_push

_KEEP_SECONDS = 30.0
_TRIED = 5
"""Number of sets of arguments that are tried on the gate of push_environment."""


@dataclass(frozen=True, slots=True)
class EnvironmentStatus:
    """The status of one environment, and what it was computed from and when."""

    snapshot: Snapshot
    decided_by: tuple[Any, ...]
    at: float
    """Seconds of a monotonic clock."""
    report: Mapping[str, Any]
    line: tuple[Standing, ...]
    """How the evidence stands that the environment needs before training, in order."""

    def as_json(self) -> dict[str, Any]:
        """The status with the age of each piece of evidence."""
        evidence = [
            row if standing.row is None else {**row, "minutes_ago": int((time.time() - standing.row.at) / 60)}
            for row, standing in zip(self.report["evidence"], self.line, strict=True)
        ]
        return {**self.report, "evidence": evidence}


class _Statuses:
    """The statuses that this process computed last, by folder."""

    def __init__(self) -> None:
        self.by_folder: dict[str, EnvironmentStatus] = {}


async def environment_status(lab: Lab, snapshot: Snapshot) -> EnvironmentStatus:
    """Where an environment stands, computed again when its files, a verdict, what waits for one, or the installed
    verifiers changed.

    Its interpreter is looked at after half a minute; the gates themselves look at it in every call. Only reads.
    """
    ended = await anyio.to_thread.run_sync(lambda: lab.ledger.unjudged(lab.key, source=snapshot.source))
    pending = ended[-1].id if ended else None
    decided_by, now = (lab.ledger.version(), installed_verifiers(), pending), time.monotonic()
    statuses = lab.memory(_Statuses).by_folder
    known = statuses.get(snapshot.relative)
    if (
        known is None
        or known.snapshot is not snapshot
        or known.decided_by != decided_by
        or now - known.at > _KEEP_SECONDS
    ):
        checked = await anyio.to_thread.run_sync(_checked, lab, snapshot)
        installed = await present_distributions(lab, snapshot, build=False) if checked else None
        report, line = await anyio.to_thread.run_sync(_status, lab, snapshot, installed, pending)
        known = statuses[snapshot.relative] = EnvironmentStatus(snapshot, decided_by, now, report, tuple(line))
    return known


async def due_call(lab: Lab, environment: str) -> Next | None:
    """The call that is due for an environment of the workspace; None where the environment is not here."""
    try:
        snapshot = await lab.snapshot(environment)
    except LabError:
        return None
    due = (await environment_status(lab, snapshot)).report["next"]
    return Next(due["tool"], due["why"], due.get("arguments"))


def _status(
    lab: Lab, snapshot: Snapshot, installed: Mapping[str, str] | None, pending: str | None
) -> tuple[dict[str, Any], list[Standing]]:
    """The status without the age of the evidence, and the standings behind it.

    `pending`: an evaluation of these files that has ended, and whose rewards are not confirmed yet.
    """
    line = gate_standings(lab.ledger, lab.key, lab.platform, snapshot, distributions=installed)
    line = [_awaiting(standing, pending) for standing in line]
    gates = [
        _gate(lab, snapshot, tool, installed if tool in DEPENDENT else None, pending)
        for tool in NEEDS
        if not tool.endswith(", hosted")
    ]
    api = detect_generation(snapshot).api
    status = {
        "name": snapshot.name,
        "api": api,
        "source": snapshot.source[:12],
        "content": snapshot.content[:12],
        "version": snapshot.manifest.version,
        "gates": gates,
        "evidence": [_evidence_data(lab, standing, snapshot) for standing in line],
        "next": _upcoming(lab, snapshot, api, line, pending).as_json(),
    }
    return status, line


def _awaiting(standing: Standing, pending: str | None) -> Standing:
    """The standing while the verdict on a newer evaluation is awaited: a gate decides by that verdict."""
    if pending is None or standing.need.tool not in EVALUATED:
        return standing
    detail = f"the rewards of {pending} are being confirmed: a sample of its rollouts is scored again"
    return replace(standing, why="inconclusive", detail=detail)


def _upcoming(lab: Lab, snapshot: Snapshot, api: str | None, line: list[Standing], pending: str | None) -> Next:
    missing = next((standing for standing in line if standing.why), None)
    if pending is not None and missing is not None and missing.need.tool in EVALUATED:
        return Next(missing.need.tool, "waits until the rewards are confirmed", {"environment": snapshot.name})
    after = None if any(found.why for found in line) or api == "v0" else step_after_the_push(lab, snapshot)
    return after or upcoming_call(snapshot.name, api, line)


def _checked(lab: Lab, snapshot: Snapshot) -> bool:
    """Whether the environment was ever loaded. Before, it does not matter what would run it."""
    ledger = lab.ledger
    return bool(ledger.evidence(lab.key, tool="check_environment", source=snapshot.source, limit=1))


def _gate(
    lab: Lab, snapshot: Snapshot, tool: str, installed: Mapping[str, str] | None, pending: str | None
) -> dict[str, str]:
    def missing(arguments: Mapping[str, Any] | None = None) -> list[Standing]:
        needs = TRAINING_NEEDS if tool == "submit_training" else NEEDS[tool]
        ledger, key, platform = lab.ledger, lab.key, lab.platform
        standings = gate_standings(ledger, key, platform, snapshot, needs, arguments, installed)
        return [one for one in (_awaiting(one, pending) for one in standings) if one.why]

    closed = missing()
    if tool == "push_environment":
        for arguments in tried_arguments(lab.ledger, lab.key, snapshot)[:_TRIED]:
            if closed and arguments and not missing(arguments):
                return {"tool": tool, "state": "open", "why": f"with {arguments_summary(arguments)}, which are proven"}
    if not closed:
        return {"tool": tool, "state": "open", "why": "all it needs is proven for these files"}
    if all(standing.need.tool in FREE and standing.why in ("never-run", "stale", "rehearsal") for standing in closed):
        return {"tool": tool, "state": "open", "why": f"{closed[0].need.tool} is run first by the call itself"}
    return {"tool": tool, "state": "closed", "why": "; ".join(dict.fromkeys(standing.detail for standing in closed))}


def _evidence_data(lab: Lab, standing: Standing, snapshot: Snapshot) -> dict[str, Any]:
    evidence: dict[str, Any] = {
        "tool": standing.need.tool,
        "state": standing.why or "proven",
        "detail": standing.detail,
    }
    if standing.row is not None and standing.why == "stale":
        evidence["changed"] = _changed(lab, standing, snapshot)
    return evidence


def _changed(lab: Lab, standing: Standing, snapshot: Snapshot) -> list[str]:
    """The files that changed since the evidence was recorded."""
    row = standing.row
    if row is None or row.content is None:
        return []
    before = lab.ledger.files_of(content=row.content)
    now = snapshot.files
    return sorted(p for p in before.keys() | now.keys() if before.get(p) != now.get(p))[:10]
