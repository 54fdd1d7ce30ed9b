"""`workflow_status`: reports valid and stale evidence, running work, and the next call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.loading import present_distributions
from prime_lab_mcp.lab.spend import spend_overview
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.gates import (
    DEPENDENT,
    FREE,
    LINE,
    NEEDS,
    Standing,
    gate_standings,
    installed_verifiers,
    tried_arguments,
    upcoming_call,
)
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation
from prime_lab_mcp.lab.training.next_step import step_after_the_push
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

_TRIED = 5
"""Number of sets of arguments that are tried on the gate of push_environment."""


_LISTED = 10
"""Number of evaluations and of runs in the report."""

_MOST_SPEND_ENTRIES = 30
"""Number of entries in the view of the spending; `prime-lab-mcp spend` prints all."""


class Args(Arguments):
    environment: Annotated[str | None, Field(max_length=300, description="Only this one.")] = None
    view: Annotated[
        Literal["status", "spend"],
        Field(description="spend: every dollar, bound and actual, by environment, evaluation and run."),
    ] = "status"


async def run(call: Call, args: Args) -> Outcome:
    if args.view == "spend":
        return await anyio.to_thread.run_sync(_spend_outcome, call, args)
    # A long ledger and many environments must not hold up the event loop.
    snapshots = await anyio.to_thread.run_sync(_snapshots, call, args)
    decided_by = (call.lab.ledger.version(), installed_verifiers())
    environments = [await _environment(call, snapshot, decided_by) for snapshot in snapshots]
    return await anyio.to_thread.run_sync(_outcome, call, environments)


def _spend_outcome(call: Call, args: Args) -> Outcome:
    overview = spend_overview(call.lab)
    if args.environment is not None:
        name = call.lab.workspace.environment(args.environment).name
        overview = replace(overview, entries=tuple(e for e in overview.entries if name in e.environments))
    return Outcome("passed", overview.sentence(), data={"spend": overview.as_json(_MOST_SPEND_ENTRIES)})


def _snapshots(call: Call, args: Args) -> list[Snapshot]:
    workspace = call.lab.workspace
    folders = workspace.list_environments() if args.environment is None else [workspace.environment(args.environment)]
    return [call.lab.snapshots.take(folder) for folder in folders]


def _outcome(call: Call, environments: list[dict[str, Any]]) -> Outcome:
    lab = call.lab
    evals = [
        {"id": job.id, "environment": job.environment, "state": job.state, **dict(job.progress)}
        for job in lab.ledger.jobs(lab.key, limit=_LISTED)
    ]
    runs = [
        {"id": run.id, "name": run.name, "kind": run.kind, "platform": run.platform}
        for run in lab.ledger.runs(workspace=lab.key, platform=lab.platform, limit=_LISTED)
    ]
    data: dict[str, Any] = {
        "workspace": lab.workspace.root.name,
        "platform": lab.platform,
        "environments": environments,
        "evals": evals,
        "runs": runs,
        "spend": {
            "committed": round(lab.ledger.spent(lab.platform), 2),
            "cap": lab.settings.max_spend,
        },
        "approval": lab.settings.approval,
    }
    next_calls = tuple(Next(e["next"]["tool"], e["next"]["why"], e["next"].get("arguments")) for e in environments[:5])
    if not environments:
        next_calls = (
            *(Next("inspect_dataset", "start from this file", {"dataset": name}) for name in _data_files(call)),
            Next("read_reference", "how to start from a dataset or from nothing", {"topic": "guide/workflow"}),
        )
    ready = sum(g["state"] == "open" for e in environments for g in e["gates"] if g["tool"] == "push_environment")
    summary = f"{count(len(environments), 'environment')} here, {ready} ready to push; {count(len(runs), 'run')} known."
    return Outcome("passed", summary, data=data, next=next_calls)


async def _environment(call: Call, snapshot: Snapshot, decided_by: tuple[Any, ...]) -> dict[str, Any]:
    """Where an environment stands, computed again when its files or anything in `decided_by` changed.

    Its interpreter is looked at after half a minute; the gates themselves look at it in every call.
    """
    lab, now = call.lab, time.monotonic()
    statuses = lab.memory(_Statuses).by_folder
    known = statuses.get(snapshot.relative)
    if (
        known is None
        or known.snapshot is not snapshot
        or known.decided_by != decided_by
        or now - known.at > _KEEP_SECONDS
    ):
        await anyio.to_thread.run_sync(lab.ledger.remember, lab.key, snapshot)
        checked = await anyio.to_thread.run_sync(_checked, call, snapshot)
        installed = await present_distributions(lab, snapshot, build=False) if checked else None
        status = await anyio.to_thread.run_sync(_status, call, snapshot, installed)
        known = statuses[snapshot.relative] = _KnownStatus(snapshot, decided_by, now, *status)
    evidence = [
        row if at is None else {**row, "minutes_ago": int((time.time() - at) / 60)}
        for row, at in zip(known.status["evidence"], known.recorded_at, strict=True)
    ]
    return {**known.status, "evidence": evidence}


def _data_files(call: Call) -> list[str]:
    """Data files beside the environments, newest first."""
    root = call.lab.workspace.root
    found = [p for pattern in ("*", "*/*") for p in root.glob(pattern) if p.suffix in _DATA and p.is_file()]
    files = [p.relative_to(root) for p in sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)]
    return [p.as_posix() for p in files if not p.parts[0].startswith((".", "environments", "configs", "outputs"))][:2]


_KEEP_SECONDS = 30.0
_DATA = frozenset({".json", ".jsonl", ".csv", ".parquet", ".arrow"})


@dataclass(frozen=True, slots=True)
class _KnownStatus:
    """The status of one environment, and what it was computed from and when."""

    snapshot: Snapshot
    decided_by: tuple[Any, ...]
    at: float
    status: dict[str, Any]
    recorded_at: list[float | None]


class _Statuses:
    """The statuses that one server has computed."""

    def __init__(self) -> None:
        self.by_folder: dict[str, _KnownStatus] = {}


def _status(
    call: Call, snapshot: Snapshot, installed: Mapping[str, str] | None
) -> tuple[dict[str, Any], list[float | None]]:
    """The status without the age of the evidence, and when each piece of evidence was recorded."""
    line = gate_standings(call.lab.ledger, call.lab.key, call.lab.platform, snapshot, distributions=installed)
    gates = [
        _gate(call, snapshot, tool, installed if tool in DEPENDENT else None)
        for tool in ("test_reward", "run_eval", "push_environment", "submit_training")
    ]
    api = detect_generation(snapshot).api
    status = {
        "name": snapshot.name,
        "api": api,
        "source": snapshot.source[:12],
        "content": snapshot.content[:12],
        "version": snapshot.manifest.version,
        "gates": gates,
        "evidence": [_evidence_data(call, standing, snapshot) for standing in line],
        "next": _upcoming(call, snapshot, api, line).as_json(),
    }
    return status, [None if standing.row is None else standing.row.at for standing in line]


def _upcoming(call: Call, snapshot: Snapshot, api: str | None, line: list[Standing]) -> Next:
    after = None if any(found.why for found in line) or api == "v0" else step_after_the_push(call.lab, snapshot)
    return after or upcoming_call(snapshot.name, api, line)


def _checked(call: Call, snapshot: Snapshot) -> bool:
    """Whether the environment was ever loaded. Before, it does not matter what would run it."""
    ledger = call.lab.ledger
    return bool(ledger.evidence(call.lab.key, tool="check_environment", source=snapshot.source, limit=1))


def _gate(call: Call, snapshot: Snapshot, tool: str, installed: Mapping[str, str] | None) -> dict[str, str]:
    def missing(arguments: Mapping[str, Any] | None = None) -> list[Standing]:
        needs = LINE if tool == "submit_training" else NEEDS[tool]
        ledger, key, platform = call.lab.ledger, call.lab.key, call.lab.platform
        standings = gate_standings(ledger, key, platform, snapshot, needs, arguments, installed)
        return [one for one in standings if one.why]

    closed = missing()
    if tool == "push_environment":
        for arguments in tried_arguments(call.lab.ledger, call.lab.key, snapshot)[:_TRIED]:
            if closed and arguments and not missing(arguments):
                return {"tool": tool, "state": "open", "why": f"with {arguments_summary(arguments)}, which are proven"}
    if not closed:
        return {"tool": tool, "state": "open", "why": "all it needs is proven for these files"}
    if all(standing.need.tool in FREE and standing.why in ("never-run", "stale", "rehearsal") for standing in closed):
        return {"tool": tool, "state": "open", "why": f"{closed[0].need.tool} is run first by the call itself"}
    return {"tool": tool, "state": "closed", "why": "; ".join(dict.fromkeys(standing.detail for standing in closed))}


def _evidence_data(call: Call, standing: Standing, snapshot: Snapshot) -> dict[str, Any]:
    evidence: dict[str, Any] = {
        "tool": standing.need.tool,
        "state": standing.why or "proven",
        "detail": standing.detail,
    }
    if standing.row is not None and standing.why == "stale":
        evidence["changed"] = _changed(call, standing, snapshot)
    return evidence


def _changed(call: Call, standing: Standing, snapshot: Snapshot) -> list[str]:
    """The files that changed since the evidence was recorded."""
    row = standing.row
    if row is None or row.content is None:
        return []
    before = call.lab.ledger.files_of(content=row.content)
    now = snapshot.files
    return sorted(p for p in before.keys() | now.keys() if before.get(p) != now.get(p))[:10]


TOOL = Tool(
    name="workflow_status",
    title="Workflow status",
    description="The map: per environment what is proven, stale (and why) or missing, which gates are open, evals, "
    "runs, and the next call. Call it first and whenever unsure.",
    args=Args,
    run=run,
    effect="reads",
)
