"""What the tools do with hosted evaluations: ask before the start, start, wait, judge and stop.

`fetch_evaluation` reads any evaluation of the account by its id on the platform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.codes import recorded_code
from prime_lab_mcp.lab.base.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next, Progress
from prime_lab_mcp.lab.base.text import count, plain_id, quote
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.evidence import eval_data
from prime_lab_mcp.lab.evals.evidence_limits import FOREIGN
from prime_lab_mcp.lab.evals.hosted import launch, platform
from prime_lab_mcp.lab.evals.hosted.plan import HostedPlan, hosted_question, hosted_standing
from prime_lab_mcp.lab.evals.hosted.platform import HostedStatus
from prime_lab_mcp.lab.evals.outcomes import finished_outcome
from prime_lab_mcp.lab.evals.pages.illustrate import illustrate_outcome
from prime_lab_mcp.lab.evals.plan import EvalRequest
from prime_lab_mcp.lab.evals.rescore.confirmation import settle_evaluations
from prime_lab_mcp.lab.evals.results import as_result
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.evals.spec import ASK_AFTER, ASK_FROM, EvalSpec
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation
from prime_lab_mcp.lab.hub.lookup import look_up_environment
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Facts, Outcome

_START_SECONDS = 20.0
"""Least time that a call waits until the platform has accepted the start, even if the caller asked to wait less."""


@dataclass(frozen=True, slots=True)
class EvaluationOffer:
    """The question before a hosted evaluation starts. `ask` says whether a person has to answer it.

    `key` identifies the evaluation. `max_cost` is in US dollars, None if unknown.
    """

    key: str
    question: str
    max_cost: float | None
    ask: bool


def offer_hosted(lab: Lab, planned: HostedPlan, request: EvalRequest) -> EvaluationOffer:
    """Return the question before the start of a hosted evaluation.

    A person has to answer if the evaluation may cost `ASK_FROM` or its cost is unknown, or if evaluations below
    `ASK_FROM` have added up to `ASK_AFTER` since the last question. An evaluation that runs already or has finished
    needs no answer.
    """
    standing = planned.standing
    if standing.state != "fresh":
        return EvaluationOffer(standing.key, f"Hosted evaluation {standing.name} exists; nothing is sent.", None, False)
    question, bound = hosted_question(planned, request.model), planned.bound
    if bound is None or bound >= ASK_FROM:
        return EvaluationOffer(standing.key, question, bound, True)
    unasked = lab.ledger.unasked(lab.platform)
    if unasked + bound <= ASK_AFTER:
        return EvaluationOffer(standing.key, question, bound, False)
    question += f" Evaluations that were not asked about have come to ${unasked:.2f} since the last question."
    return EvaluationOffer(standing.key, question, bound, True)


async def evaluate_hosted(
    lab: Lab, planned: HostedPlan, seconds: float, progress: Progress, approved: str | None, *, confirmed: bool
) -> Outcome:
    """Start a hosted evaluation or attach to it, wait up to `seconds`, and judge the evaluation if it has finished.

    `approved` is the key of the approved offer. `confirmed` says whether a person agreed. Raises LabError
    (`intent-changed` if another evaluation than the approved one would start).
    """
    # Another call may have started the evaluation in the meantime.
    planned = replace(planned, standing=hosted_standing(lab, planned.spec))
    standing = planned.standing
    if standing.state == "fresh" and approved != standing.key:
        raise LabError(
            "what would be started changed while it was being approved",
            fix=Fix("Call ", NamedCall("run_eval"), " again; it asks about what would be started now."),
            code="intent-changed",
        )
    if standing.state == "fresh":
        await _require_same_version(lab, planned)
    job = await launch.start_hosted(lab, planned, confirmed=confirmed)
    job = await _wait(lab, job, seconds, progress)
    if job.state in LIVE_STATES:
        return _running_outcome(lab, job, planned)
    if job.state != "finished":
        return _ended_outcome(lab, job, planned)
    await settle_evaluations(lab, source=job.source)
    eval_verdict = await anyio.to_thread.run_sync(verdict.judge_job, lab, job)
    finished = finished_outcome(lab, job, eval_verdict)
    outcome = await anyio.to_thread.run_sync(as_result, lab, job, eval_verdict, finished)
    outcome = await illustrate_outcome(lab, job, eval_verdict, outcome)
    data = {**outcome.data, "deduplicated": standing.state == "known"}
    return replace(outcome, findings=(*outcome.findings, *_other_version_findings(planned)), data=data)


async def _require_same_version(lab: Lab, planned: HostedPlan) -> None:
    """Ask the Hub once more for its latest version, which is what the platform runs, and which its owner may have
    replaced while a person was asked. Raises LabError (`intent-changed`).

    A Hub that does not answer now is no such change: the supervisor asks again once the evaluation has started.
    """
    before = planned.subject.entry
    now = await look_up_environment(lab.prime, before.owner, before.name)
    if now.exists is None or (now.version, now.content_hash) == (before.version, before.content_hash):
        return
    raise LabError(
        f"the Hub's latest version of {before.ref} was {plain_id(before.version or '')} when this was planned, "
        f"and is {plain_id(now.version or 'none')} now; nothing was started",
        fix=Fix("Call ", NamedCall("run_eval"), " again; it asks about the version that would run now."),
        code="intent-changed",
    )


async def _wait(lab: Lab, job: Job, seconds: float, progress: Progress) -> Job:
    until = anyio.current_time() + _START_SECONDS
    job = await EvaluationJobs(lab).wait(job.id, seconds, progress)
    while job.state in LIVE_STATES and not job.progress.get("evaluation") and anyio.current_time() < until:
        job = await EvaluationJobs(lab).wait(job.id, 0.5, progress)
    return job


def _running_outcome(lab: Lab, job: Job, planned: HostedPlan) -> Outcome:
    spec = EvaluationJobs(lab).spec(job)
    at = job.progress.get("evaluation") or "not listed yet"
    return Outcome(
        "running",
        f"Evaluation {job.id} runs on the platform ({at}): {job.progress.get('completed', 0)} of "
        f"{count(spec.planned, 'rollout')} finished.",
        _other_version_findings(planned),
        data=eval_data(spec, job, None, None),
        next=(
            Next("run_eval", "the same call waits for it again, and gives the verdict"),
            Next("watch_run", "how it stands, at once", {"id": job.id}),
            Next("control_run", "end it early", {"id": job.id, "action": "stop"}),
        ),
    )


def _ended_outcome(lab: Lab, job: Job, planned: HostedPlan) -> Outcome:
    """Return the inconclusive outcome of an evaluation that crashed or was stopped.

    Raises PrimeError if the platform refused the start.
    """
    failure = job.progress.get("failure")
    if failure and not job.progress.get("evaluation"):
        fix = Fix.from_record(str(failure["fix"]), failure.get("calls", ()))
        raise PrimeError(str(failure["message"]), fix=fix, code=recorded_code(str(failure["code"])))
    reason = str(job.progress.get("reason") or "no reason was recorded")
    final = job.progress.get("ended") in platform.ENDED_WITHOUT_RESULT
    again = "starts a new one" if final else "attaches to the same evaluation again, and starts no other"
    finding = Finding(
        "eval-crashed" if job.state == "crashed" else "eval-stopped",
        "blocker",
        f"the hosted evaluation {job.id} did not finish: {reason}",
        Fix("Mend the cause if the message names one; the same ", NamedCall("run_eval"), f" call {again}."),
    )
    return Outcome(
        "inconclusive",
        f"Evaluation {job.id} {job.state}: {reason}.",
        (finding, *_other_version_findings(planned)),
        eval_data(EvaluationJobs(lab).spec(job), job, None, None),
        (Next("run_eval", again), Next("read_eval", "what finished before that", {"eval": job.id})),
        facts=Facts(proves=False),
    )


def _other_version_findings(planned: HostedPlan) -> tuple[Finding, ...]:
    subject = planned.subject
    if subject.requested_version in (None, subject.version):
        return ()
    return (
        Finding(
            "hosted-latest-only",
            "warning",
            f"{subject.ref}@{subject.requested_version} was named, and {subject.version} runs: hosted evaluations run "
            "the latest",
            f"Name {subject.pinned}, or pull the other version and evaluate it on this machine.",
        ),
    )


async def stop_hosted(lab: Lab, job: Job) -> Job:
    """Stop a hosted evaluation on the platform, also if its supervisor is gone. Raises LabError."""
    id = job.progress.get("evaluation")
    if job.state in LIVE_STATES or not id or job.progress.get("ended"):
        return await EvaluationJobs(lab).stop(job.id)
    await lab.prime.eval_stop(str(id))
    lab.ledger.update_job(
        job.id, state="stopped", progress={**job.progress, "ended": "CANCELLED", "reason": "it was stopped"}
    )
    return EvaluationJobs(lab).get(job.id)


async def fetch_evaluation(lab: Lab, id: str) -> FinishedEvaluation:
    """Return an evaluation of the account by its id on the platform, and download its samples. Raises LabError.

    If a job of this workspace follows the evaluation, the job's specification and results are returned.
    """
    for run in lab.ledger.runs(id=id, platform=lab.platform, kind="hosted-eval"):
        job = lab.ledger.job(str(run.data.get("job")))
        if job is not None and job.workspace == lab.key and (results := EvaluationJobs(lab).files(job.id).results()):
            return FinishedEvaluation(job.id, EvaluationJobs(lab).spec(job), lambda: read_rollouts(results))
    if not id.replace("_", "").replace("-", "").isalnum():
        raise BadInput(
            f"{quote(id, 80)} is no id of an evaluation", fix=Fix("Use an id from ", NamedCall("watch_run"), ".")
        )
    answer = await lab.prime.eval_get(id)
    status = platform.status_of(answer)
    target = lab.settings.evals / "platform" / lab.platform / f"{id}.jsonl"
    if status.state not in platform.ENDED_STATUSES or not target.is_file():
        await platform.download_samples(lab.prime, id, target, _ignore_progress)
    return FinishedEvaluation(id, _spec(answer, status), lambda: read_rollouts(target))


async def _ignore_progress(done: int, total: int | None) -> None:
    """A progress callback that does nothing."""


def _spec(answer: Mapping[str, Any], status: HostedStatus) -> EvalSpec:
    """Return the specification of an evaluation that was started elsewhere, as far as the platform states it."""
    names = answer.get("environment_names")
    name = str(names[0]) if isinstance(names, list) and names else "unknown"
    metadata = answer.get("metadata")
    settings = metadata if isinstance(metadata, Mapping) else {}
    return EvalSpec(
        environment=name,
        source=f"{FOREIGN}{name}",
        content=f"{FOREIGN}{name}",
        tree=Path(),
        api="v1",
        module=name.rpartition("/")[2].replace("-", "_"),
        python=Path(),
        program=Path(),
        verifiers="",
        model=status.model or "unknown",
        endpoint=Endpoint("prime", "https://api.pinference.ai/api/v1"),
        num_examples=int(settings.get("num_examples") or 0),
        rollouts=int(settings.get("rollouts_per_example") or 1),
        hosted=name,
    )
