"""`watch_run`: evaluations and training runs as they stand, with what is going wrong and what to do about it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from prime_lab_mcp.lab import watching
from prime_lab_mcp.lab.anomalies import Anomaly
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals import failures, past
from prime_lab_mcp.lab.evals.pages.links import links
from prime_lab_mcp.lab.prime.answers import number
from prime_lab_mcp.lab.records import Job, Run
from prime_lab_mcp.lab.report import Facts, Finding, Link, Next, Outcome
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.watching import Watched
from prime_lab_mcp.tools.names import Slug
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

_SHOWN = 15
_EVAL_ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")


class Args(Arguments):
    id: Annotated[Slug | None, Field(description="Run or eval; none lists them.")] = None


async def run(call: Call, args: Args) -> Outcome:
    if args.id is None:
        return await _list(call)
    if call.lab.ledger.job(args.id) is not None:
        return _job(call, call.lab.evals.get(args.id))
    known = call.lab.ledger.runs(id=args.id, platform=call.lab.platform)
    if known and known[0].kind == "hosted-eval":
        return await _hosted(call, args.id)
    try:
        seen = await watching.watch(call.lab, args.id, known[0] if known else None)
    except LabError as error:
        if error.code == "platform-not-found":
            return await _elsewhere(call, args.id, error)
        raise
    return _training(args.id, seen, known[0] if known else None)


async def _elsewhere(call: Call, id: str, error: LabError) -> Outcome:
    """No training run of that id: a hosted evaluation that was started elsewhere, or nothing."""
    try:
        return await _hosted(call, id)
    except LabError as other:
        if other.code != "platform-not-found":
            raise
    raise LabError(
        f"neither this machine nor the account knows a run or evaluation {quote(id, 80)}",
        fix="Call watch_run without an id to list them.",
        code="run-not-found",
        next=(Next("watch_run", "lists what there is"),),
    ) from error


def _training(id: str, seen: Watched, known: Run | None) -> Outcome:
    price = known.price_per_hour if known else None
    max_steps = number(seen.run.get("max_steps"))
    data: dict[str, Any] = {
        "id": id,
        "kind": "training",
        "name": seen.run.get("name"),
        "status": seen.status,
        "step": seen.step,
        "max_steps": int(max_steps) if max_steps is not None else None,
        "model": seen.run.get("base_model"),
        "environments": [e.get("id") for e in seen.run.get("environments") or () if isinstance(e, dict)],
        "queue": _queue(seen),
        "reward": watching.reward_story(seen.rows),
        "recent": watching.recent(seen.rows),
        "reward_distribution": _bins(seen),
        "spend": _spend(seen, known, price),
        "checkpoints": _checkpoints(seen),
        "anomalies": [_anomaly(a, seen) for a in seen.anomalies],
    }
    findings = [*_ended(seen), *(_finding(a, seen) for a in seen.anomalies), *_untold(seen)]
    status = _status(seen)
    return Outcome(
        status,
        _said(id, seen, data),
        tuple(findings),
        {key: value for key, value in data.items() if value not in (None, {})},
        _next(id, seen),
        (Link(f"lab://runs/{id}", "the run"),),
        facts=Facts(touches_platform=True),
    )


def _status(seen: Watched) -> Literal["passed", "failed", "running"]:
    if seen.status in ("FAILED", "STOPPED"):
        return "failed"
    return "passed" if seen.status in ("COMPLETED", "PAUSED") else "running"


def _ended(seen: Watched) -> list[Finding]:
    if seen.status == "FAILED":
        analysis = seen.run.get("failure_analysis")
        cause = analysis.get("rootCause") or analysis.get("root_cause") if isinstance(analysis, dict) else None
        said = quote(str(seen.run.get("error_message") or cause or "no reason given"))
        fix = "Mend the cause (search the logs with `prime train logs`), then submit_training(again=true)."
        return [Finding("run-failed", "blocker", f"the run failed: {said}", fix)]
    if seen.status == "STOPPED":
        fix = "Call submit_training(again=true) to run it once more, or use its last checkpoint."
        return [Finding("run-stopped", "blocker", "the run was stopped before it was done", fix)]
    if seen.status == "PAUSED":
        message = "the run is paused at a checkpoint; nothing is billed"
        return [Finding("run-paused", "warning", message, "control_run resume goes on as a new run.")]
    return []


def _finding(anomaly: Anomaly, seen: Watched) -> Finding:
    burned = seen.burned_since(anomaly.since_step)
    cost = f" (about ${burned:.2f} since)" if burned and anomaly.code not in ("overrun", "queue") else ""
    message = f"since step {anomaly.since_step}: {anomaly.cause}{cost}"
    return Finding(f"run-{anomaly.code}", "warning", message, anomaly.advice)


def _anomaly(anomaly: Anomaly, seen: Watched) -> dict[str, Any]:
    burned = seen.burned_since(anomaly.since_step)
    return anomaly.as_json() | ({"burned": burned} if burned is not None else {})


def _untold(seen: Watched) -> list[Finding]:
    return [
        Finding("run-incomplete", "info", f"{name} could not be read: {error.message}", error.fix)
        for name, error in seen.missing.items()
        if error.code != "platform-not-found"
    ]


def _queue(seen: Watched) -> dict[str, Any] | None:
    if seen.status not in ("QUEUED", "PENDING"):
        return None
    reason = seen.run.get("queue_reason")
    return {"runs_ahead": seen.run.get("runs_ahead"), "reason": quote(str(reason), 160) if reason else None}


def _spend(seen: Watched, known: Run | None, price: float | None) -> dict[str, Any]:
    found = {"total": seen.spend, "price_per_hour": price, "agreed_limit": known.max_cost if known else None}
    return {key: value for key, value in found.items() if value is not None}


def _checkpoints(seen: Watched) -> list[dict[str, Any]]:
    return [{"step": c.get("step"), "id": c.get("id"), "status": c.get("status")} for c in seen.checkpoints[-5:]]


def _bins(seen: Watched) -> dict[str, Any] | None:
    bins = [b for b in seen.distribution.get("bins") or () if isinstance(b, dict) and b.get("count")]
    if not bins:
        return None
    shown = [[b.get("min"), b.get("max"), b.get("count")] for b in bins[:20]]
    return {"step": seen.distribution.get("step"), "min_max_count": shown}


def _said(id: str, seen: Watched, data: dict[str, Any]) -> str:
    done = (seen.step or 0) + 1 if seen.step is not None else 0
    of = f" of {data['max_steps']}" if data["max_steps"] else ""
    reward = data["reward"]
    earned = f", reward {reward['first']:.2f} -> {reward['now']:.2f}" if reward else ""
    cost = f", ${seen.spend:.2f} so far" if seen.spend is not None else ""
    worst = f"; look at {seen.anomalies[0].code}" if seen.anomalies else ""
    return f"Run {id} is {seen.status}: {done}{of} steps{earned}{cost}{worst}."


def _next(id: str, seen: Watched) -> tuple[Next, ...]:
    again = Next("watch_run", "look again in a few minutes", {"id": id})
    if seen.status == "PAUSED":
        return (Next("control_run", "go on from the checkpoint", {"id": id, "action": "resume"}),)
    if seen.status == "COMPLETED":
        return (Next("run_eval", "compare the trained model with the one before it"),)
    if seen.status in ("FAILED", "STOPPED"):
        return (Next("workflow_status", "what to do next"),)
    if any(a.level == "stop" for a in seen.anomalies):
        return (Next("control_run", "ends the billing; ask the user first", {"id": id, "action": "stop"}), again)
    return (again,)


def _job(call: Call, job: Job) -> Outcome:
    live = job.state in ("starting", "running")
    data = {"id": job.id, "kind": "eval", "status": job.state, "environment": job.environment, **dict(job.progress)}
    done, planned = job.progress.get("completed", 0), job.progress.get("planned", 0)
    spec = call.lab.evals.spec(job)
    ended = job.state in ("crashed", "stopped")
    findings = (*((failures.broken(spec, job),) if ended else ()), *failures.findings(spec, job))
    data["estimate"] = spec.estimate
    calls = (
        Next("watch_run", "look again", {"id": job.id})
        if live
        else Next("read_eval", "what it shows", {"eval": job.id, "view": "summary"})
    )
    status: Literal["running", "passed", "failed"] = "running" if live else "failed" if ended else "passed"
    return Outcome(
        status,
        f"Evaluation {job.id} of {job.environment} is {job.state}: {done} of {planned} rollouts.",
        findings,
        data,
        (calls,),
        links(job.id),
    )


async def _hosted(call: Call, id: str) -> Outcome:
    found = await call.lab.prime.eval_get(id)
    state = str(found.get("status") or "UNKNOWN").upper()
    data = {
        "id": id,
        "kind": "hosted-eval",
        "status": state,
        "model": found.get("model_name") or found.get("inference_model"),
        "reward": number(found.get("avg_score")),
        "samples": found.get("total_samples"),
    }
    findings: tuple[Finding, ...] = ()
    if state in ("FAILED", "TIMEOUT", "CANCELLED"):
        said = quote(str(found.get("error_message") or "no reason given"))
        fix = "Mend the cause and call run_eval(hosted=true) again."
        findings = (Finding("eval-failed", "blocker", f"the hosted evaluation ended {state}: {said}", fix),)
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
    evals = past.listed(lab, _SHOWN)
    ours = {r.id: r for r in lab.ledger.runs(platform=lab.platform, kind="training")}
    findings: tuple[Finding, ...] = ()
    try:
        listed = await lab.prime.train_list(limit=50)
    except LabError as error:
        listed = []
        message = f"the account's runs could not be listed: {error.message}"
        findings = (Finding(error.code, "warning", message, error.fix),)
    runs = [_row(r, str(r.get("id")) in ours) for r in listed]
    seen = {r["id"] for r in runs}
    runs += [
        {"id": r.id, "kind": r.kind, "name": r.name, "status": "unknown", "from_here": True}
        for r in ours.values()
        if r.id not in seen
    ]
    runs.sort(key=lambda r: not r["from_here"])
    live = [r for r in runs if r["status"] in ("QUEUED", "PENDING", "RUNNING", "PAUSING")]
    data = {"runs": runs[:_SHOWN], "evals": evals, "total_runs": len(runs)}
    first = next(iter([*live, *runs, *evals]), None)
    calls = (Next("watch_run", "how it stands", {"id": first["id"]}),) if first else (Next("workflow_status", "start"),)
    said = f"{count(len(runs), 'training run')} ({len(live)} going), {count(len(evals), 'evaluation')}."
    return Outcome("passed", said, findings, data, calls)


def _row(found: dict[str, Any], from_here: bool) -> dict[str, Any]:
    return {
        "id": str(found.get("id")),
        "kind": "training",
        "name": found.get("name"),
        "status": str(found.get("status") or "UNKNOWN").upper(),
        "model": found.get("base_model"),
        "from_here": from_here,
    }


TOOL = Tool(
    name="watch_run",
    title="Watch run",
    description="How an eval or training run stands: status, progress, reward, spend, checkpoints, and anomalies with "
    "cause and advice. Without id: list them, evals with what each is good for (target, ceiling, dead, faulty).",
    args=Args,
    run=run,
    effect="reads",
    open_world=True,
)
