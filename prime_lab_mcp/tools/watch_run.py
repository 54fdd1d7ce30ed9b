"""`watch_run`: reports the state of evaluations and training runs, with anomalies and advice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from pydantic import AfterValidator, Field

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.own_gpus import billed_pods_finding
from prime_lab_mcp.lab.environment_status import due_call
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.measured import live_estimate, time_left_sentence
from prime_lab_mcp.lab.evals.outcomes import finished_outcome
from prime_lab_mcp.lab.evals.pages.rendering import page_links
from prime_lab_mcp.lab.evals.results import as_result, checkpoint_purpose
from prime_lab_mcp.lab.evals.runner import endings
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.training import continuation, evaluations, outcome, own_runs, watch
from prime_lab_mcp.lab.training.metrics import held_out_series
from prime_lab_mcp.tools import own_run_report, training_report
from prime_lab_mcp.tools.argument_types import slug
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

_LISTED = 15
_MOST_PATH = 300
_RUN_ENDED = ("COMPLETED", "STOPPED", "PAUSED", "FAILED")
_EVAL_ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")


def _id(text: str) -> str:
    """An id, or the folder of a self-managed run."""
    if "/" not in text:
        return slug(text)
    if len(text) > _MOST_PATH:
        raise ValueError(f"must have at most {_MOST_PATH} characters")
    return text


class Args(Arguments):
    id: Annotated[
        str | None,
        AfterValidator(_id),
        Field(description="Run, eval or outputs/RUN (your own prime-rl); none lists them."),
    ] = None
    step: Annotated[
        int | None, Field(ge=0, le=10**9, description="Show rollouts of this step (default: the newest kept).")
    ] = None


async def run(call: Call, args: Args) -> Outcome:
    if args.id is None:
        return await _list(call)
    workspace = call.lab.workspace
    if "/" in args.id:
        return await _own(call, own_runs.require_own_run(workspace, args.id), args.step)
    if call.lab.ledger.job(args.id) is not None:
        return await _job(call, EvaluationJobs(call.lab).get(args.id))
    known = call.lab.ledger.runs(id=args.id, platform=call.lab.platform)
    if not known and (folder := own_runs.own_run_folder(workspace, args.id)) is not None:
        return await _own(call, folder, args.step)
    if known and known[0].kind == "hosted-eval":
        return await _hosted(call, args.id)
    try:
        reading = await watch.watch_run(call.lab, args.id, known[0] if known else None, args.step)
    except LabError as error:
        if error.code == "platform-not-found":
            return await _elsewhere(call, args.id, error)
        raise
    after, recorded = None, known[0] if known else None
    earlier = await continuation.earlier_runs(call.lab, recorded)
    if reading.status in _RUN_ENDED:
        series = earlier.joined(held_out_series(reading.rows))
        after = await outcome.run_outcome(call.lab, args.id, reading.run, reading.checkpoints, series)
    later = continuation.continuations(call.lab, args.id)
    rehearsed = call.lab.settings.rehearsal
    ids = [run.id for run in later]
    return training_report.outcome(args.id, reading, recorded, after, earlier, ids, rehearsed=rehearsed)


async def _own(call: Call, folder: Path, step: int | None) -> Outcome:
    """A self-managed run, read from what it wrote."""
    reading = await anyio.to_thread.run_sync(own_runs.read_own_run, folder, step)
    return own_run_report.own_outcome(folder.relative_to(call.lab.workspace.root).as_posix(), reading)


async def _elsewhere(call: Call, id: str, error: LabError) -> Outcome:
    """Look for a hosted evaluation that was started elsewhere, if no training run has this id."""
    try:
        return await _hosted(call, id)
    except LabError as other:
        if other.code != "platform-not-found":
            raise
    raise LabError(
        f"neither this machine nor the account knows a run or evaluation {quote(id, 80)}",
        fix=Fix("Call ", NamedCall("watch_run"), " without an id to list them."),
        code="run-not-found",
        next=(Next("watch_run", "lists what there is"),),
    ) from error


async def _job(call: Call, job: Job) -> Outcome:
    if job.state == "finished":
        return await _finished(call, job)
    live = job.state in ("starting", "running")
    progress = {name: value for name, value in job.progress.items() if name != "attempt"}
    data = {"id": job.id, "kind": "eval", "status": job.state, "environment": job.environment, **progress}
    done, planned = job.progress.get("completed", 0), job.progress.get("planned", 0)
    spec = EvaluationJobs(call.lab).spec(job)
    ended = job.state in ("crashed", "stopped")
    findings = (*((endings.broken_finding(spec, job),) if ended else ()), *endings.failure_findings(spec, job))
    data["estimate"] = live_estimate(spec, job, time.time())
    if isinstance(data.get("mean_reward"), float):
        data["mean_reward"] = round(data["mean_reward"], 4)
    shown = Next("read_eval", "what the finished rollouts show", {"eval": job.id, "view": "summary"})
    resuming = endings.resuming_call(spec, job)
    calls = [Next("watch_run", "look again", {"id": job.id})] if live else [*([resuming] if resuming else ()), shown]
    status: Literal["running", "passed", "failed"] = "running" if live else "failed" if ended else "passed"
    return Outcome(
        status,
        f"Evaluation {job.id} of {job.environment} is {job.state}: {done} of {planned} rollouts."
        f"{time_left_sentence(spec, job, time.time()) if live else ''}",
        findings,
        data,
        tuple(calls),
        page_links(job.id),
    )


async def _finished(call: Call, job: Job) -> Outcome:
    """A finished evaluation with its verdict, and the calls that follow from both."""
    lab = call.lab
    judged = await anyio.to_thread.run_sync(verdict.judge_job, lab, job)
    ended = finished_outcome(lab, job, judged)
    ended = await anyio.to_thread.run_sync(as_result, lab, job, judged, ended)
    spec = EvaluationJobs(lab).spec(job)
    due = None
    if judged.status == "passed" and checkpoint_purpose(lab, spec.model) is None:
        due = await due_call(lab, job.environment)
    kept = ("id", "model", "tasks", "rollouts", "completed", "planned", "errors", "mean_reward", "mean_of_attainable")
    data = {"kind": "eval", "status": job.state, "environment": job.environment, "verdict": judged.status}
    data |= {name: ended.data[name] for name in (*kept, "cost") if name in ended.data}
    shown = Next("read_eval", "what it shows", {"eval": job.id, "view": "summary"})
    calls = [due, *(one for one in ended.next if one.tool != "push_environment"), shown]
    summary = f"Evaluation {job.id} is finished: {ended.summary}"
    return Outcome("passed", summary, ended.findings, data, tuple(c for c in calls if c), page_links(job.id))


async def _hosted(call: Call, id: str) -> Outcome:
    evaluation = await call.lab.prime.eval_get(id)
    state = str(evaluation.get("status") or "UNKNOWN").upper()
    data = {
        "id": id,
        "kind": "hosted-eval",
        "status": state,
        "model": evaluation.get("model_name") or evaluation.get("inference_model"),
        "reward": finite_number(evaluation.get("avg_score")),
        "samples": evaluation.get("total_samples"),
    }
    findings: tuple[Finding, ...] = ()
    if state in ("FAILED", "TIMEOUT", "CANCELLED"):
        reason = quote(str(evaluation.get("error_message") or "no reason given"))
        fix = Fix("Mend the cause and call ", NamedCall("run_eval", hosted=True), " again.")
        findings = (Finding("eval-failed", "blocker", f"the hosted evaluation ended {state}: {reason}", fix),)
    ended = state in _EVAL_ENDED
    status: Literal["running", "passed", "failed"] = "failed" if findings else "passed" if ended else "running"
    following = (
        Next("read_eval", "what it shows", {"eval": id, "view": "summary"})
        if ended
        else Next("watch_run", "look again in a minute", {"id": id})
    )
    return Outcome(
        status,
        f"Hosted evaluation {id} is {state}.",
        findings,
        {key: value for key, value in data.items() if value is not None},
        (following,),
        facts=Facts(touches_platform=True),
    )


async def _list(call: Call) -> Outcome:
    lab = call.lab
    evals = evaluations.list_evaluations(lab, _LISTED)
    ours = {r.id: r for r in lab.ledger.runs(platform=lab.platform, kind="training")}
    listed: list[dict[str, Any]] = []
    findings: list[Finding] = []

    async def ask_runs() -> None:
        try:
            listed.extend(await lab.prime.train_list(limit=50))
        except LabError as error:
            message = f"the account's runs could not be listed: {error.message}"
            findings.append(Finding(error.code, "warning", message, error.fix))

    async def ask_pods() -> None:
        findings.extend(await billed_pods_finding(lab))

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask_runs)
        asking.start_soon(ask_pods)
    runs = [_row(r, str(r.get("id")) in ours) for r in listed]
    ids = {r["id"] for r in runs}
    runs += [
        {"id": r.id, "kind": r.kind, "name": r.name, "status": "unknown", "from_here": True}
        for r in ours.values()
        if r.id not in ids
    ]
    runs += own_runs.list_own_runs(lab.workspace, _LISTED)
    runs.sort(key=lambda r: not r["from_here"])
    live = [r for r in runs if r.get("status") in ("QUEUED", "PENDING", "RUNNING", "PAUSING")]
    data = {"runs": runs[:_LISTED], "evals": evals, "total_runs": len(runs)}
    first = next(iter([*live, *runs, *evals]), None)
    calls = (Next("watch_run", "how it stands", {"id": first["id"]}),) if first else (Next("workflow_status", "start"),)
    summary = f"{count(len(runs), 'training run')} ({len(live)} going), {count(len(evals), 'evaluation')}."
    return Outcome("passed", summary, tuple(findings), data, calls)


def _row(run: dict[str, Any], from_here: bool) -> dict[str, Any]:
    return {
        "id": str(run.get("id")),
        "kind": "training",
        "name": run.get("name"),
        "status": str(run.get("status") or "UNKNOWN").upper(),
        "model": run.get("base_model"),
        "from_here": from_here,
    }


TOOL = Tool(
    name="watch_run",
    title="Watch run",
    description="How an eval or training run stands: status, progress, reward, held-out evals, spend, checkpoints, "
    "best and worst rollouts, anomalies with onset, cause and advice. Without id: list them, evals with what each is "
    "good for (target, ceiling, comparison, dead, faulty).",
    args=Args,
    run=run,
    effect="reads",
    page=True,
    open_world=True,
)
