"""Computes the status of an environment: the evidence for its present files, the open gates, and the next call."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.evals.sandboxes import in_its_container
from prime_lab_mcp.lab.lab import Lab
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
from prime_lab_mcp.lab.state.proven_arguments import proven_arguments
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation
from prime_lab_mcp.lab.training.next_step import (
    push_as_it_can_go,
    result_of_pull,
    step_after_the_push,
    waiting_config_of_pull,
)

_KEEP_SECONDS = 30.0
_TRIED = 5
"""Number of sets of arguments with which the gate of push_environment is tried."""
_FOR_THIS_FOLDER = "needed only where the files of this folder are to be published, or trained on with changes"


@dataclass(frozen=True, slots=True)
class EnvironmentStatus:
    """The status of one environment, with the facts it was computed from and the time."""

    snapshot: Snapshot
    decided_by: tuple[Any, ...]
    at: float
    """Seconds of a monotonic clock."""
    report: Mapping[str, Any]
    standings: tuple[Standing, ...]
    """The state of each requirement before training, in order. The data of their verdicts has plain values only."""

    def as_json(self) -> dict[str, Any]:
        """The status with the age of each piece of evidence."""
        evidence = [
            row if standing.row is None else {**row, "minutes_ago": int((time.time() - standing.row.at) / 60)}
            for row, standing in zip(self.report["evidence"], self.standings, strict=True)
        ]
        return {**self.report, "evidence": evidence}


class _Statuses:
    """A cache of the statuses that this process computed last, by folder."""

    def __init__(self) -> None:
        self.by_folder: dict[str, EnvironmentStatus] = {}


async def environment_status(lab: Lab, snapshot: Snapshot) -> EnvironmentStatus:
    """Return the status of an environment. Only reads."""
    [status] = await environment_statuses(lab, [snapshot])
    return status


async def environment_statuses(lab: Lab, snapshots: Sequence[Snapshot]) -> list[EnvironmentStatus]:
    """Return the status of each environment. Only reads.

    A status is cached. It is computed again after a change of the files, of a verdict, of a pending evaluation, or of
    the installed verifiers, and after half a minute, because the environment's interpreter may have changed. The gates
    themselves read the interpreter in every call.
    """
    source = snapshots[0].source if len(snapshots) == 1 else None
    ended = await anyio.to_thread.run_sync(lambda: lab.ledger.unjudged(lab.key, source=source))
    pending = {job.source: job.id for job in ended}
    shared = (lab.ledger.version(), installed_verifiers())
    started = time.monotonic()
    return [await _present_status(lab, one, pending.get(one.source), shared, started) for one in snapshots]


async def _present_status(
    lab: Lab, snapshot: Snapshot, pending: str | None, shared: tuple[Any, ...], started: float
) -> EnvironmentStatus:
    """The cached status, if nothing changed that decides it. `shared` is what decides every status alike.

    Statuses of one call, which began at `started`, read the distributions of an interpreter once: 200 environments
    would read them for half a minute.
    """
    decided_by, now = (*shared, pending), time.monotonic()
    statuses = lab.memory(_Statuses).by_folder
    known = statuses.get(snapshot.relative)
    if (
        known is None
        or known.snapshot is not snapshot
        or known.decided_by != decided_by
        or now - known.at > _KEEP_SECONDS
    ):
        checked = await anyio.to_thread.run_sync(_checked, lab, snapshot)
        read = time.monotonic() - started
        installed = await _installed(lab, snapshot, read) if checked else None
        report, standings = await anyio.to_thread.run_sync(_status, lab, snapshot, installed, pending)
        known = statuses[snapshot.relative] = EnvironmentStatus(snapshot, decided_by, now, report, tuple(standings))
    return known


def _with_plain_data(standing: Standing) -> Standing:
    """Leave the distributions and other tables out of a verdict that is cached: nobody reads them there, and their
    thousands of small objects, made anew with every verdict, would lie all over the memory of a server."""
    row = standing.row
    if row is None:
        return standing
    plain = {name: value for name, value in row.data.items() if isinstance(value, str | int | float)}
    return replace(standing, row=replace(row, data=plain, toolchain={}, arguments={}, sampling={}))


async def _installed(lab: Lab, snapshot: Snapshot, read: float) -> Mapping[str, str] | None:
    from prime_lab_mcp.lab.present_distributions import present_distributions  # late: see `_checked`

    return await present_distributions(lab, snapshot, build=False, keep_seconds=read)


async def due_call(lab: Lab, environment: str) -> Next | None:
    """The next call for an environment of the workspace; None if the environment is not in the workspace."""
    try:
        snapshot = await lab.snapshot(environment)
    except LabError:
        return None
    due = (await environment_status(lab, snapshot)).report["next"]
    return Next(due["tool"], due["why"], due.get("arguments"))


def _status(
    lab: Lab, snapshot: Snapshot, installed: Mapping[str, str] | None, pending: str | None
) -> tuple[dict[str, Any], list[Standing]]:
    """Compute the status without the age of the evidence, and the standings behind it.

    `pending` is the id of an ended evaluation of these files whose rewards are not confirmed yet.
    """
    present = gate_standings(lab.ledger, lab.key, lab.platform, snapshot, distributions=installed)
    standings = [_awaiting(standing, pending) for standing in present]
    waiting = waiting_config_of_pull(lab, snapshot)
    gates = [
        _gate(lab, snapshot, tool, installed if tool in DEPENDENT else None, pending, waiting)
        for tool in NEEDS
        if not tool.endswith(", hosted")
    ]
    api = detect_generation(snapshot).api
    upcoming = _upcoming(lab, snapshot, api, standings, pending)
    status = {
        "name": snapshot.name,
        "api": api,
        "source": snapshot.source[:12],
        "content": snapshot.content[:12],
        "version": snapshot.manifest.version,
        "gates": gates,
        "evidence": [_evidence_data(lab, standing, snapshot) for standing in standings],
        "next": in_its_container(lab.ledger, lab.key, snapshot, upcoming).as_json(),
    }
    result = result_of_pull(lab, snapshot) if waiting is None else None
    if result is not None:
        upcoming = in_its_container(lab.ledger, lab.key, snapshot, upcoming)
        status["next"] = replace(upcoming, why=f"{upcoming.why}; {_FOR_THIS_FOLDER}").as_json()
    if (as_pulled := waiting or result) is not None:
        status["as_pulled"] = as_pulled.as_json()
    return status, [_with_plain_data(standing) for standing in standings]


def _awaiting(standing: Standing, pending: str | None) -> Standing:
    """Make a standing inconclusive while a newer evaluation waits for its verdict, because that verdict will decide."""
    if pending is None or standing.need.tool not in EVALUATED:
        return standing
    detail = f"the rewards of {pending} are being confirmed: a sample of its rollouts is scored again"
    return replace(standing, why="inconclusive", detail=detail)


def _upcoming(lab: Lab, snapshot: Snapshot, api: str | None, standings: list[Standing], pending: str | None) -> Next:
    missing = next((standing for standing in standings if standing.why), None)
    if pending is not None and missing is not None and missing.need.tool in EVALUATED:
        return Next(missing.need.tool, "waits until the rewards are confirmed", {"environment": snapshot.name})
    if missing is not None and missing.need.tool in EVALUATED and (other := _with_other_arguments(lab, snapshot, api)):
        return other
    after = None if missing is not None or api == "v0" else step_after_the_push(lab, snapshot)
    due = after or upcoming_call(snapshot.name, api, standings, workspace=lab.workspace)
    if due.tool == "run_eval":
        return _broken_off(lab, snapshot) or due
    return push_as_it_can_go(lab, snapshot, due) if due.tool == "push_environment" else due


def _broken_off(lab: Lab, snapshot: Snapshot) -> Next | None:
    """The call that goes on with the newest evaluation of these files, where that broke off."""
    newest = next(iter(lab.ledger.jobs(lab.key, environment=snapshot.name)), None)
    if newest is None or newest.source != snapshot.source:
        return None
    from prime_lab_mcp.lab.evals.runner.endings import resuming_call  # late: few environments have such an evaluation
    from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs

    try:
        return resuming_call(EvaluationJobs(lab).spec(newest), newest)
    except LabError:
        return None  # A newer version of the server wrote the job.


def _with_other_arguments(lab: Lab, snapshot: Snapshot, api: str | None) -> Next | None:
    """The step that is due with the arguments with which training is proven; None if these are the defaults."""
    decisive = [
        row
        for tool in ("check_reward_distribution", "push_environment")
        for row in lab.ledger.decisive(lab.key, tool, of_evaluations=True, source=snapshot.source)
        if row.platform in (None, lab.platform)
    ]
    rows = sorted(decisive, key=lambda row: row.id, reverse=True)
    named = proven_arguments(rows, runs=lab.ledger.training_names())
    if not named:
        return None
    standings = gate_standings(lab.ledger, lab.key, lab.platform, snapshot, arguments=named)
    missing = next((standing for standing in standings if standing.why), None)
    after = None if missing is not None or api == "v0" else step_after_the_push(lab, snapshot)
    return after or upcoming_call(snapshot.name, api, standings, named, workspace=lab.workspace)


def _checked(lab: Lab, snapshot: Snapshot) -> bool:
    """Whether the environment was ever checked. Before that, no evidence depends on the installed distributions."""
    ledger = lab.ledger
    return bool(ledger.evidence(lab.key, tool="check_environment", source=snapshot.source, limit=1))


def _gate(
    lab: Lab,
    snapshot: Snapshot,
    tool: str,
    installed: Mapping[str, str] | None,
    pending: str | None,
    waiting: Next | None,
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
    if not closed and tool == "submit_training":
        after = step_after_the_push(lab, snapshot)
        if after is not None and after.tool == "test_reward":  # its config uses arguments that no test had
            return {"tool": tool, "state": "closed", "why": after.why}
    if closed and tool == "submit_training" and waiting is not None:
        closed = [replace(closed[0], detail=f"{closed[0].detail} (as_pulled: what does not wait for it)"), *closed[1:]]
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
