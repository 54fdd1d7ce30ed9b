"""`control_run`: stops an evaluation, or stops, pauses, resumes or restarts a training run.

Resuming and restarting cost money and need approval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.distribution.sample_size import is_too_small, needed_size
from prime_lab_mcp.lab.evals.hosted import evaluation as hosted
from prime_lab_mcp.lab.evals.plan import run_eval_arguments
from prime_lab_mcp.lab.evals.runner.endings import resuming_call
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.training import control, resumption, submission
from prime_lab_mcp.tools.argument_types import Slug, Text
from prime_lab_mcp.tools.tool import Arguments, Call, Intent, Plan, PlannedTool


class Args(Arguments):
    id: Slug
    action: Annotated[
        Literal["stop", "pause", "resume", "restart"],
        Field(description="Evals can only stop; restart begins at a checkpoint."),
    ]
    confirm: Annotated[Text | None, Field(description="Token of an earlier answer.")] = None


@dataclass(frozen=True, slots=True)
class Work:
    """What to do. `steering` is set for actions that continue spending."""

    args: Args
    steering: control.RunControl | None = None


async def plan(call: Call, args: Args) -> Plan[Work]:
    """Plan the action. Resuming and restarting need approval; stopping and pausing save money and need none."""
    if args.action == "stop" or args.action == "pause" or _is_evaluation(call, args.id):
        return Plan(Work(args))
    steering = await control.prepare_control(call.lab, args.action, args.id)
    intent = Intent(
        "control",
        steering.key,
        steering.question,
        steering.cost.max_cost,
        ask=steering.continued_as is None,
        cautions=steering.cautions,
        file=steering.file,
    )
    return Plan(Work(args, steering), intent)


def _is_evaluation(call: Call, id: str) -> bool:
    ledger = call.lab.ledger
    return ledger.job(id) is not None or bool(ledger.runs(id=id, platform=call.lab.platform, kind="hosted-eval"))


async def run(call: Call, plan: Plan[Work]) -> Outcome:
    args = plan.work.args
    if call.lab.ledger.job(args.id) is not None:
        return await _eval(call, args)
    if _is_evaluation(call, args.id):
        if args.action != "stop":
            raise _only_stop(args)
        await call.lab.prime.eval_stop(args.id)
        return Outcome("passed", f"Hosted evaluation {args.id} was asked to stop.", data={"id": args.id})
    if plan.work.steering is not None:
        return await _steer(call, args, plan.work.steering)
    if args.action == "stop":
        return await _stop(call, args)
    await control.pause_run(call.lab, args.id)
    return await _paused(call, args)


async def _eval(call: Call, args: Args) -> Outcome:
    if args.action != "stop":
        raise _only_stop(args)
    job = await hosted.stop_hosted(call.lab, EvaluationJobs(call.lab).get(args.id))
    if job.state in LIVE_STATES:
        return Outcome(
            "running",
            f"Evaluation {job.id} was asked to stop and is ending; that takes longer where its rollouts have "
            "containers. Its finished rollouts are kept.",
            data={"id": job.id, "kind": "eval", "status": job.state, **dict(job.progress)},
            next=(Next("watch_run", "says when it has ended", {"id": job.id}),),
        )
    if not job.progress.get("completed"):
        return _nothing_finished(call, job)
    resuming = resuming_call(EvaluationJobs(call.lab).spec(job), job)
    return Outcome(
        "passed",
        f"Evaluation {job.id} is {job.state}; its finished rollouts are kept.",
        data={"id": job.id, "kind": "eval", "status": job.state, **dict(job.progress)},
        next=(
            Next("read_eval", "what the finished rollouts show", {"eval": job.id, "view": "summary"}),
            *([resuming] if resuming is not None else ()),
        ),
    )


def _nothing_finished(call: Call, job: Job) -> Outcome:
    """The outcome for an evaluation that ended before any rollout did: there is nothing to read."""
    spec = EvaluationJobs(call.lab).spec(job)
    again = run_eval_arguments(spec)
    tasks, rollouts = needed_size(spec.available)
    why = "the same evaluation, from its beginning"
    if spec.uses_podman or is_too_small(spec.planned_tasks, spec.planned, spec.available):
        again |= {"num_examples": tasks, "rollouts": rollouts}
        why = f"{tasks} tasks x {rollouts} rollouts, the smallest size that can pass"
    return Outcome(
        "passed",
        f"Evaluation {job.id} is {job.state}; none of its rollouts had finished.",
        data={"id": job.id, "kind": "eval", "status": job.state, **dict(job.progress)},
        next=(Next("run_eval", why, again),),
    )


def _only_stop(args: Args) -> BadInput:
    return BadInput(
        f"an evaluation can only be stopped, not {args.action}d",
        fix=Fix("Call ", NamedCall("run_eval"), " with the same arguments; it goes on where the evaluation ended."),
    )


async def _stop(call: Call, args: Args) -> Outcome:
    await call.progress(0.0, None, f"stopping run {args.id}; that may take three minutes")
    status, ended = await control.stop_run(call.lab, args.id)
    if ended:
        return Outcome("passed", f"Run {args.id} had ended already: {status}.", data={"id": args.id, "status": status})
    if status == "PAUSED":
        return await _still_paused(call, args)
    findings: tuple[Finding, ...] = ()
    if status not in submission.TERMINAL_STATUSES:
        message = f"the platform still shows run {args.id} as {status}"
        findings = (Finding("run-not-stopped-yet", "warning", message, "Call watch_run until it is STOPPED."),)
    return _outcome(args, f"Run {args.id} was stopped for good, so that it cannot be resumed", status, findings)


async def _still_paused(call: Call, args: Args) -> Outcome:
    """The outcome for a paused run, which the platform cannot stop.

    The user may want to stop the run that continues it.
    """
    continued_as = await resumption.continuation_of(call.lab, args.id)
    message = f"run {args.id} is PAUSED, and the platform left it so; it is not billed, and can be resumed"
    fix = "Leave it, or ask the user to delete it on its page."
    calls = [Next("watch_run", "how it stands", {"id": args.id})]
    if continued_as is not None:
        message += f". It goes on as run {continued_as}, which is billed"
        fix = f"Stop run {continued_as}."
        calls.insert(0, Next("control_run", "end the run that is billed", {"id": continued_as, "action": "stop"}))
    return Outcome(
        "failed",
        f"Run {args.id} was not stopped; it is PAUSED.",
        (Finding("run-stays-paused", "blocker", message, fix),),
        {"id": args.id, "kind": "training", "status": "PAUSED", "action": args.action},
        tuple(calls),
        facts=Facts(touches_platform=True),
    )


async def _paused(call: Call, args: Args) -> Outcome:
    """The outcome of a pause: the run is paused already, or pauses at its next checkpoint."""
    status = await submission.run_status(call.lab, args.id)
    resume = Next("control_run", "go on from the checkpoint, after asking", {"id": args.id, "action": "resume"})
    watch = Next("watch_run", "at which step it is, and what it has cost", {"id": args.id})
    paused = status == "PAUSED"
    summary = f"Run {args.id} is PAUSED at a checkpoint; nothing is billed, and a resume goes on as a new run."
    if not paused:
        summary = f"Run {args.id} pauses at its next checkpoint and is billed until then; its status is {status}."
    return Outcome(
        "passed",
        summary,
        data={"id": args.id, "kind": "training", "status": status, "action": args.action},
        next=(resume, watch) if paused else (watch,),
        facts=Facts(touches_platform=True),
    )


async def _now(call: Call, args: Args, done: str) -> Outcome:
    return _outcome(args, done, await submission.run_status(call.lab, args.id))


def _outcome(args: Args, done: str, status: str, findings: tuple[Finding, ...] = ()) -> Outcome:
    return Outcome(
        "passed",
        f"{done}; it is {status}.",
        findings,
        {"id": args.id, "kind": "training", "status": status, "action": args.action},
        (Next("watch_run", "how it stands", {"id": args.id}),),
        facts=Facts(touches_platform=True),
    )


async def _steer(call: Call, args: Args, steering: control.RunControl) -> Outcome:
    steered = await control.carry_out_control(call.lab, steering)
    if steering.action == "restart":
        return await _now(call, args, f"Run {args.id} restarts from its last checkpoint")
    at = f" at ${steered.price_per_hour:.2f} per hour" if steered.price_per_hour is not None else ""
    return Outcome(
        "passed",
        f"Run {args.id} goes on as {steered.id}{at}.",
        data={
            "id": steered.id,
            "resumed_from": args.id,
            "price_per_hour": steered.price_per_hour,
            "deduplicated": not steered.was_sent,
        },
        next=(Next("watch_run", "how it stands", {"id": steered.id}),),
        facts=Facts(touches_platform=True),
    )


TOOL = PlannedTool(
    name="control_run",
    title="Control run",
    description="Stop an eval; stop, pause, resume or restart a training run. resume and restart ask first.",
    args=Args,
    plan=plan,
    run=run,
    continues=lambda args: args.id if args.action in ("resume", "restart") else None,
    effect="spends",
    open_world=True,
)
