"""The outcomes of run_eval for evaluations that finished, still run or broke off, and their sentences."""

from __future__ import annotations

import dataclasses
import re
import time

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import amount_text, count, plain_id, quote
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.evidence import eval_data, evidence_facts
from prime_lab_mcp.lab.evals.measured import time_left_sentence
from prime_lab_mcp.lab.evals.runner import endings
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import ONE_TURN, EvalSpec
from prime_lab_mcp.lab.evals.verdict import EvaluationVerdict
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.looked_up import other_models
from prime_lab_mcp.lab.state.arguments import same_arguments
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Facts, Outcome


def verdict_summary(spec: EvalSpec, verdict: EvaluationVerdict) -> str:
    """Return one sentence on a finished evaluation. The status of a report says already that it passed."""
    d = verdict.distribution
    if d is None or d.mean is None:
        reasons = [verdict.findings[0], *(f for f in verdict.findings[1:] if f.code in endings.FAILURE_CODES)][:2]
        message = "; ".join(f.message for f in reasons)
        return f"The evaluation of {spec.environment} with {plain_id(spec.model)} says nothing: {message}."
    usable = d.usable_groups
    groups = f", {usable.share:.0%} of groups of {usable.group_size} usable" if usable.share is not None else ""
    if d.is_dead:
        groups = ", dead (nothing was solved)"
    elif usable.form_only is not None and usable.form_only >= 0.05:
        groups += f", another {usable.form_only:.0%} differ by form, length or style only"
    solved = f"{d.pass_rate:.0%} solved, " if d.pass_rate is not None else ""
    verdict_text = "" if verdict.status == "passed" else f"; {verdict.status}"
    return (
        f"{spec.environment} with {plain_id(spec.model)}: {solved}{mean_summary(d)} over {count(d.tasks, 'task')} x "
        f"{spec.rollouts}{groups}{verdict_text}.{_stand_in(spec, d)}"
    )


_STAND_IN = re.compile(r"rehearsal/skill-(\d+)")


def _stand_in(spec: EvalSpec, distribution: Distribution) -> str:
    """Says of a stand-in of the rehearsal that its skill explains why nothing or all was solved, not the tasks."""
    skill = _STAND_IN.fullmatch(spec.model)
    if skill is None or not (distribution.is_dead or int(skill[1]) == 100):
        return ""
    return f" This model is a stand-in of the rehearsal, which solves {int(skill[1])}% of any tasks."


def mean_summary(distribution: Distribution) -> str:
    """Return the mean reward in words, and also as a share of the attainable reward if that is not 1.

    The share has a percent sign: two bare numbers read like one of the other."""
    mean, attainable = distribution.mean or 0.0, distribution.attainable
    if abs(attainable - 1.0) < 1e-9:
        return f"mean reward {mean:.2f}"
    return f"mean reward {mean * attainable:.2f} ({mean:.0%} of the attainable {attainable:g})"


def _comparison(lab: Lab, job: Job, spec: EvalSpec) -> tuple[Next, ...]:
    """Return the call that compares an evaluation with the newest one of another model on the same files and tasks."""
    for other in EvaluationJobs(lab).list(job.environment):
        same = other.id != job.id and other.source == job.source and other.state == "finished"
        same = same and same_arguments(other.spec.get("env_args") or {}, spec.env_args)
        if same and other.spec.get("model") not in (None, spec.model):
            why = f"whether the difference to {quote(str(other.spec['model']), 60)} is real, paired by task"
            return (Next("read_eval", why, {"eval": job.id, "view": "compare", "other": other.id}),)
    return ()


def _second_model(lab: Lab, job: Job, spec: EvalSpec) -> tuple[Next, ...]:
    """Return the evaluation of the model that was looked up beside this one and was not evaluated on these files."""
    evaluated = {j.spec.get("model") for j in EvaluationJobs(lab).list(job.environment) if j.source == job.source}
    left = [name for name in other_models(lab, spec.model) if name not in evaluated]
    if not left or spec.endpoint.preset != "prime" or spec.hosted is not None:
        return ()
    from prime_lab_mcp.lab.evals.plan import run_eval_arguments

    why = "the other model that was looked up, on the same tasks, to choose between the two"
    return (Next("run_eval", why, {**run_eval_arguments(spec), "model": left[0]}),)


def finished_outcome(lab: Lab, job: Job, verdict: EvaluationVerdict) -> Outcome:
    """Return the outcome of run_eval for a finished evaluation."""
    from prime_lab_mcp.lab.evals.easier import following_calls

    spec = EvaluationJobs(lab).spec(job)
    results = EvaluationJobs(lab).files(job.id).results()
    following = following_calls(lab, spec, job.id, verdict.distribution) if verdict.distribution is not None else ()
    compared = _comparison(lab, job, spec) if verdict.distribution and not verdict.distribution.is_dead else ()
    # The choice between two models comes before a push for one of them, and before other tasks for the one that failed.
    chosen_first = verdict.status != "passed" or bool(other_models(lab, spec.model))
    following = (*compared, *following) if chosen_first else (*following, *compared)
    if not compared and verdict.distribution is not None:
        second = _second_model(lab, job, spec)
        following = (*following, *second) if verdict.distribution.is_dead else (*second, *following)
    return Outcome(
        verdict.status,
        verdict_summary(spec, verdict),
        verdict.findings,
        eval_data(spec, job, verdict, str(results) if results else None),
        following,
        facts=dataclasses.replace(evidence_facts(spec, job), proves=False),
    )


def size_and_cost_summary(spec: EvalSpec) -> str:
    """Return one line on the size and the estimated cost of an evaluation, before it starts."""
    estimate = spec.estimate
    tokens = sum(estimate["tokens"].values())
    cost = f", {amount_text(estimate['cost'])}" if "cost" in estimate else ""
    basis = estimate["basis"]
    likely = f"{tokens:,} tokens{cost}" + (f" with {ONE_TURN}" if basis == ONE_TURN else f", {basis}")
    if (most := estimate.get("at_most")) is not None:
        likely += f" (at most {amount_text(most)})"
    size = f"{count(spec.planned_tasks, 'task')} x {spec.rollouts} = {count(spec.planned, 'rollout')}"
    by = f"{plain_id(spec.model)} at {spec.endpoint.host}"
    return f"{size} with {by}: {likely}.{spec.minutes_sentence}".removesuffix(".")


_TELLING = 40
"""Number of rollouts without any reward after which a running evaluation says so (our judgement)."""


def running_outcome(lab: Lab, job: Job) -> Outcome:
    """Return the outcome of a call whose time ran out before the job ended."""
    from prime_lab_mcp.lab.evals.easier import reward_calls, reward_verdict, untested_sentence

    spec = EvaluationJobs(lab).spec(job)
    completed, planned = job.progress.get("completed", 0), job.progress.get("planned") or spec.planned
    findings = endings.failure_findings(spec, job)
    trouble = f"; {findings[0].message}" if findings and findings[0].severity != "info" else ""
    if completed >= _TELLING and job.progress.get("mean_reward") == 0:
        trouble += "; none of them earned anything so far"
    ended = "all" if completed >= planned else f"{completed} of"
    after = ", and its rewards are being checked" if completed >= planned else ""
    untested = "" if spec.hosted is not None else untested_sentence(lab, job.source, spec.env_args)
    test = {"environment": spec.environment, **({"env_args": dict(spec.env_args)} if spec.env_args else {})}
    meanwhile: tuple[Next, ...] = (
        Next("test_reward", "free, while the evaluation runs: whether its rewards mean anything", test),
    )
    if untested and reward_verdict(lab, job.source, spec.env_args) is not None:
        meanwhile = tuple(reward_calls(lab, spec, job.id))  # the same test of the same files would say the same again
    return Outcome(
        "running",
        f"Evaluation {job.id} of {spec.environment} with {plain_id(spec.model)} goes on: {ended} "
        f"{count(planned, 'rollout')} finished{after}{trouble}.{untested}"
        f"{time_left_sentence(spec, job, time.time())}",
        findings,
        eval_data(spec, job, None, None),
        (
            *(meanwhile if untested else ()),
            Next("run_eval", "the same call waits for it again, and gives the verdict"),
            Next("watch_run", "how it stands, at once", {"id": job.id}),
            Next("control_run", "end it early", {"id": job.id, "action": "stop"}),
        ),
    )


def broken_outcome(lab: Lab, job: Job) -> Outcome:
    """Return the outcome of a job that broke off. It is inconclusive: a failure of machinery is not a low score."""
    spec = EvaluationJobs(lab).spec(job)
    finding = endings.broken_finding(spec, job)
    return Outcome(
        "inconclusive",
        f"Evaluation {job.id} {job.state}: {job.progress.get('reason') or 'no reason was recorded'}.",
        (finding, *endings.failure_findings(spec, job)),
        eval_data(spec, job, None, None),
        (Next("run_eval", endings.retry_call(spec)),),
        facts=Facts(proves=False),
    )
