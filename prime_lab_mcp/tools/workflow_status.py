"""`workflow_status`: reports valid and stale evidence, running work, and the next call."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.configs.config import read_config
from prime_lab_mcp.lab.configs.registry import REGISTRY, load_registry
from prime_lab_mcp.lab.environment_status import environment_statuses
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.spend import spend_overview
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job, Run
from prime_lab_mcp.lab.state.open_warnings import ported_from, replaced_by
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.workspace import Workspace
from prime_lab_mcp.lab.training.declined import calls_after_decline, newest_decline
from prime_lab_mcp.lab.training.next_step import live_runs, watch_call
from prime_lab_mcp.tools.first_calls import first_calls
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

_LISTED = 10
"""Number of evaluations and of runs in the report."""

_MOST_LIVE = 3
"""Number of live runs that the next calls name."""

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
    environments = [status.as_json() for status in await environment_statuses(call.lab, snapshots)]
    return await anyio.to_thread.run_sync(_outcome, call, environments, args.environment is None)


def _spend_outcome(call: Call, args: Args) -> Outcome:
    overview = spend_overview(call.lab)
    if args.environment is not None:
        name = call.lab.workspace.environment(args.environment).name
        overview = replace(overview, entries=tuple(e for e in overview.entries if name in e.environments))
    return Outcome("passed", overview.sentence(), data={"spend": overview.as_json(_MOST_SPEND_ENTRIES)})


def _snapshots(call: Call, args: Args) -> list[Snapshot]:
    workspace = call.lab.workspace
    folders = workspace.list_environments() if args.environment is None else [workspace.environment(args.environment)]
    snapshots = [call.lab.snapshots.take(folder) for folder in folders]
    for snapshot in snapshots:
        call.lab.ledger.remember(call.lab.key, snapshot)
    return snapshots


def _outcome(call: Call, environments: list[dict[str, Any]], whole: bool) -> Outcome:
    """The report. `whole`: of all environments of the workspace."""
    lab = call.lab
    evals = [_evaluation(job) for job in lab.ledger.jobs(lab.key, limit=_LISTED)]
    runs = [
        {"id": run.id, "name": run.name, "kind": run.kind, "platform": run.platform, **_end_of(run)}
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
            "cap": lab.limits.max_spend,
        },
        "approval": "always" if lab.limits.always else "ask",
    }
    declined = newest_decline(lab)
    if declined is not None:
        data["declined"] = _decline_row(lab, declined)
    replaced = {replaced_by(lab.ledger, lab.key, e["name"]) for e in environments if _pushed(e)}
    current = [e for e in environments if f"environments/{e['name']}" not in replaced]
    # Whoever ported an environment works on the port: the step of the older one comes after all others.
    ported = {ported_from(lab.ledger, lab.key, e["name"]) for e in environments}
    current.sort(key=lambda e: f"environments/{e['name']}" in ported)
    steps = [one for e in current[:5] for one in (e.get("as_pulled"), e["next"]) if one is not None]
    due = tuple(Next(one["tool"], one["why"], one.get("arguments")) for one in steps)
    unported = [e for e in environments if f"environments/{e['name']}" not in ported]
    ports = tuple(_ports(lab.workspace, unported[:_MOST_PORTS]))
    untouched = {e["name"] for e in environments if all(row["state"] == "never-run" for row in e["evidence"])}
    # Of a v0 environment that nothing was tried with, the port is what can be trained; its tests come after the port.
    first = tuple(one for one in ports if (one.arguments or {}).get("port") in untouched)
    due = (*_after_completed_runs(lab, current[:_MOST_LIVE]), *first, *due, *(one for one in ports if one not in first))
    live = [watch_call(run) for run in live_runs(lab)[:_MOST_LIVE]] if whole else []
    # A run on an environment of the Hub belongs to no folder here.
    next_calls = (*(c for c in live if not any(c.arguments == d.arguments for d in due)), *due)
    again = _calls_without_folders(lab, declined) if not environments and not live else ()
    if again:
        next_calls = again
    elif not environments and not live:
        next_calls = (
            *first_calls(call.lab.workspace),
            Next("read_reference", "how to start from a dataset or from nothing", {"topic": "guide/workflow"}),
        )
    pushed = [e for e in environments if _pushed(e)]
    gates = (g for e in environments if e not in pushed for g in e["gates"] if g["tool"] == "push_environment")
    ready = sum(gate["state"] == "open" for gate in gates)
    here = f"{count(len(environments), 'environment')} here, {ready} ready to push, {len(pushed)} pushed"
    summary = f"{here}; {count(sum(run['kind'] == 'training' for run in runs), 'run')} known."
    if live:
        summary += f" {count(len(live), 'run')} not seen to end."
    if declined is not None:
        summary += f" A submission was declined by {declined.data['declined_by']}."
    return Outcome("passed", summary, data=data, next=next_calls)


def _after_completed_runs(lab: Lab, environments: Sequence[Mapping[str, Any]]) -> Iterator[Next]:
    """Yield the way on after a completed run on each environment. Before the first run nothing more is imported."""
    if not any(run.data.get("ended") for run in lab.ledger.runs(kind="training", platform=lab.platform)):
        return
    from prime_lab_mcp.lab.training.evaluations import after_completed_run

    yield from (one for e in environments if (one := after_completed_run(lab, e["name"])) is not None)


def _end_of(run: Run) -> dict[str, Any]:
    """How a run ended, as far as anybody looked."""
    return {"ended": run.data["ended"]} if run.data.get("ended") else {}


_MOST_PORTS = 3
"""Most environments of which the port is offered beside the due step."""


def _ports(workspace: Workspace, environments: Sequence[Mapping[str, Any]]) -> Iterator[Next]:
    """Yield the port of each v0 environment that has none beside it and whose due step is another."""
    for one in environments:
        name = one["name"]
        if one["api"] != "v0" or workspace.has_port(name) or one["next"]["tool"] == "create_environment":
            continue
        given = {"name": workspace.free_port_name(name), "port": name}
        yield Next("create_environment", f"{name} is v0, which cannot be trained; makes a v1 port beside it", given)


def _calls_without_folders(lab: Lab, declined: Evidence | None) -> tuple[Next, ...]:
    """The calls for the declined config, or the newest run or config, of a workspace that has no environments."""
    row = _decline_row(lab, declined) if declined is not None else {}
    try:
        if "config" in row:
            config = read_config(lab.workspace.resolve(row["config"], must_exist=True))
            return calls_after_decline(config, row["config"], row["by"])
        runs = lab.ledger.runs(workspace=lab.key, platform=lab.platform, kind="training", limit=1)
        if runs:
            return (
                Next("watch_run", "how the newest run ended, and what its checkpoint is worth", {"id": runs[0].id}),
            )
        entries = load_registry(lab.workspace.resolve(REGISTRY))
        newest = next((e for e in reversed(entries) if e.active and e.target == "hosted"), None)
    except (LabError, OSError):
        return ()
    if newest is None:
        return ()
    return (Next("check_training_config", "the newest config, before it is paid for", {"path": newest.path}),)


def _pushed(environment: Mapping[str, Any]) -> bool:
    """Whether the present files of an environment are on the Hub."""
    return any(row["tool"] == "push_environment" and row["state"] == "proven" for row in environment["evidence"])


def _decline_row(lab: Lab, declined: Evidence) -> dict[str, Any]:
    """The submission that a person declined last, and which no run followed."""
    row: dict[str, Any] = {"by": declined.data["declined_by"], "minutes_ago": int((time.time() - declined.at) / 60)}
    try:
        entries = load_registry(lab.workspace.resolve(REGISTRY))
    except LabError:
        return row  # check_training_config says what is wrong with the registry
    path = next((e.path for e in reversed(entries) if e.sha256 == declined.config_sha256), None)
    return {"config": path, **row} if path is not None else row


def _evaluation(job: Job) -> dict[str, Any]:
    """One evaluation in a line of the list."""
    row: dict[str, Any] = {"id": job.id, "environment": job.environment, "model": job.spec.get("model")}
    row |= {"state": job.state}
    row |= {name: job.progress.get(name) for name in ("completed", "planned", "errors", "mean_reward", "cost")}
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
    return {name: value for name, value in rounded.items() if value is not None}


TOOL = Tool(
    name="workflow_status",
    title="Workflow status",
    description="The map: per environment what is proven, stale (and why) or missing, which gates are open, evals, "
    "runs, and the next call. Call it first and whenever unsure.",
    args=Args,
    run=run,
    effect="reads",
    page=True,
)
