"""`workflow_status`: reports valid and stale evidence, running work, and the next call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.gates import FREE, LINE, NEEDS, Standing, gate_standings, tried_arguments
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

_TRIED = 5
"""Number of sets of arguments that are tried on the gate of push_environment."""


class Args(Arguments):
    environment: Annotated[str | None, Field(max_length=300, description="Only this one.")] = None


async def run(call: Call, args: Args) -> Outcome:
    lab = call.lab
    names = (
        [lab.workspace.environment(args.environment).relative]
        if args.environment is not None
        else [folder.relative for folder in lab.workspace.list_environments()]
    )
    environments = [_environment(call, await lab.snapshot(name)) for name in names]
    evals = [
        {"id": job.id, "environment": job.environment, "state": job.state, **dict(job.progress)}
        for job in lab.ledger.jobs(lab.key)[:10]
    ]
    runs = [
        {"id": run.id, "name": run.name, "kind": run.kind, "platform": run.platform}
        for run in lab.ledger.runs(workspace=lab.key, platform=lab.platform)[:10]
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
            Next("inspect_dataset", "start from a dataset"),
            Next("search_hub", "or find an environment that exists", {"kind": "environment", "query": "..."}),
        )
    ready = sum(g["state"] == "open" for e in environments for g in e["gates"] if g["tool"] == "push_environment")
    summary = f"{count(len(environments), 'environment')} here, {ready} ready to push; {count(len(runs), 'run')} known."
    return Outcome("passed", summary, data=data, next=next_calls)


def _environment(call: Call, snapshot: Snapshot) -> dict[str, Any]:
    line = gate_standings(call.lab.ledger, call.lab.key, call.lab.platform, snapshot)
    gates = [_gate(call, snapshot, tool) for tool in ("test_reward", "run_eval", "push_environment", "submit_training")]
    evidence = [_shown(call, found, snapshot) for found in line]
    api = detect_generation(snapshot).api
    return {
        "name": snapshot.name,
        "api": api,
        "source": snapshot.source[:12],
        "content": snapshot.content[:12],
        "version": snapshot.manifest.version,
        "gates": gates,
        "evidence": evidence,
        "next": _upcoming(snapshot, api, line).as_json(),
    }


def _gate(call: Call, snapshot: Snapshot, tool: str) -> dict[str, str]:
    def missing(arguments: Mapping[str, Any] | None = None) -> list[Standing]:
        needs = LINE if tool == "submit_training" else NEEDS[tool]
        found = gate_standings(call.lab.ledger, call.lab.key, call.lab.platform, snapshot, needs, arguments)
        return [one for one in found if one.why]

    closed = missing()
    if tool == "push_environment":
        for arguments in tried_arguments(call.lab.ledger, call.lab.key, snapshot)[:_TRIED]:
            if closed and arguments and not missing(arguments):
                return {"tool": tool, "state": "open", "why": f"with {arguments_summary(arguments)}, which are proven"}
    if not closed:
        return {"tool": tool, "state": "open", "why": "all it needs is proven for these files"}
    if all(found.need.tool in FREE and found.why in ("never-run", "stale", "rehearsal") for found in closed):
        return {"tool": tool, "state": "open", "why": f"{closed[0].need.tool} is run first by the call itself"}
    return {"tool": tool, "state": "closed", "why": "; ".join(dict.fromkeys(found.detail for found in closed))}


def _shown(call: Call, found: Standing, snapshot: Snapshot) -> dict[str, Any]:
    shown: dict[str, Any] = {"tool": found.need.tool, "state": found.why or "proven", "detail": found.detail}
    if found.row is not None:
        shown["minutes_ago"] = int((time.time() - found.row.at) / 60)
        if found.why == "stale":
            shown["changed"] = _changed(call, found, snapshot)
    return shown


def _changed(call: Call, found: Standing, snapshot: Snapshot) -> list[str]:
    """The files that changed since the evidence was recorded."""
    row = found.row
    if row is None or row.content is None:
        return []
    before = call.lab.ledger.files_of(content=row.content)
    now = snapshot.files
    return sorted(p for p in before.keys() | now.keys() if before.get(p) != now.get(p))[:10]


def _upcoming(snapshot: Snapshot, api: str | None, line: list[Standing]) -> Next:
    """The next call for this environment."""
    step = next((found for found in line if found.why), None)
    here = {"environment": snapshot.name}
    if step is None and api == "v0":
        return Next(
            "read_reference", "a v0 environment cannot be trained; how to port it", {"topic": "guide/migration"}
        )
    if step is None:
        return Next("write_training_config", "everything is proven and pushed", {"environments": [snapshot.name]})
    tool, failed = step.need.tool, step.why in ("failed", "inconclusive")
    if tool == "check_reward_distribution":
        return Next("read_eval", step.detail, {"view": "zeros"}) if failed else Next("run_eval", step.detail, here)
    if failed and tool != "push_environment":
        return Next("read_environment", f"{step.detail}; mend it with edit_environment", here)
    return Next(tool, step.detail, here)


TOOL = Tool(
    name="workflow_status",
    title="Workflow status",
    description="The map: per environment what is proven, stale (and why) or missing, which gates are open, evals, "
    "runs, and the next call. Call it first and whenever unsure.",
    args=Args,
    run=run,
    effect="reads",
)
