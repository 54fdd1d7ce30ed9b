"""Evaluations that have no verdict yet, as run_eval reports them: announced, running, broken off."""

from __future__ import annotations

from prime_lab_mcp.lab.evals import failures, verdicts
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Facts, Next, Outcome
from prime_lab_mcp.lab.text import count


def announced(spec: EvalSpec) -> str:
    """What an evaluation will ask for, before it starts."""
    known = spec.estimate
    tokens = sum(known["tokens"].values())
    cost = f", ${known['cost']:.2f}" if "cost" in known else ""
    size = f"{count(spec.planned_tasks, 'task')} x {spec.rollouts} = {count(spec.planned, 'rollout')}"
    return f"{size} with {spec.model} at {spec.endpoint.host}: at most {tokens:,} tokens{cost} for one turn each"


def running(lab: Lab, job: Job) -> Outcome:
    """The call's patience ended before the job did."""
    spec = lab.evals.spec(job)
    done, planned = job.progress.get("completed", 0), job.progress.get("planned") or spec.planned
    met = failures.findings(spec, job)
    trouble = f"; {met[0].message}" if met and met[0].severity != "info" else ""
    return Outcome(
        "running",
        f"Evaluation {job.id} goes on: {done} of {count(planned, 'rollout')} finished{trouble}.",
        met,
        verdicts.eval_data(spec, job, None, None),
        (
            Next("watch_run", "follow it", {"id": job.id}),
            Next("run_eval", "the same call waits for it again"),
            Next("control_run", "end it early", {"id": job.id, "action": "stop"}),
        ),
    )


def broken(lab: Lab, job: Job) -> Outcome:
    """A crash of machinery: never a low score."""
    spec = lab.evals.spec(job)
    why = failures.broken(spec, job)
    return Outcome(
        "inconclusive",
        f"Evaluation {job.id} {job.state}: {job.progress.get('reason') or 'no reason was recorded'}.",
        (why, *failures.findings(spec, job)),
        verdicts.eval_data(spec, job, None, None),
        (Next("run_eval", failures.again(spec)),),
        facts=Facts(proves=False),
    )
