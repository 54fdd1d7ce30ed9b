"""A hosted evaluation as tools use it: the question before it, the wait, the verdict, and stopping it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import anyio

from prime_lab_mcp.lab.errors import LabError, PrimeError
from prime_lab_mcp.lab.evals import judging, verdicts
from prime_lab_mcp.lab.evals.hosted import launch, platform
from prime_lab_mcp.lab.evals.hosted.plan import Planned, prepare, question
from prime_lab_mcp.lab.evals.illustrate import illustrated
from prime_lab_mcp.lab.evals.jobs import LIVE, Progress
from prime_lab_mcp.lab.evals.plan import Wanted
from prime_lab_mcp.lab.evals.spec import ASK_FROM
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Facts, Finding, Next, Outcome
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.text import count

_START_SECONDS = 20.0
"""How long a call waits to say whether the platform took it, however short it was told to wait."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What is about to be paid for: `key` is its identity, `max_cost` in US dollars (None: not known)."""

    key: str
    question: str
    max_cost: float | None
    ask: bool


async def offer(lab: Lab, environment: str, snapshot: Snapshot | None, wanted: Wanted) -> Offer:
    """What to ask before it starts; nothing where it runs already or has finished. Raises LabError."""
    planned = await prepare(lab, environment, snapshot, wanted)
    at = planned.standing
    if at.state != "fresh":
        return Offer(at.key, f"Hosted evaluation {at.name} exists; nothing is sent.", None, False)
    ask = planned.bound is None or planned.bound >= ASK_FROM
    return Offer(at.key, question(planned, wanted.model), planned.bound, ask)


async def evaluate(
    lab: Lab, environment: str, snapshot: Snapshot | None, wanted: Wanted, seconds: float, progress: Progress,
    approved: str | None,
) -> Outcome:  # fmt: skip
    """Start, attach to or return an evaluation; judge it when it has ended. `approved`: key of the offer agreed to."""
    planned = await prepare(lab, environment, snapshot, wanted)
    at = planned.standing
    if at.state == "fresh" and approved != at.key:
        raise LabError(
            "what would be started changed while it was being approved",
            fix="Call run_eval again; it asks about what would be started now.",
            code="intent-changed",
        )
    job = await launch.start(lab, planned)
    job = await _waited(lab, job, seconds, progress)
    if job.state in LIVE:
        return _running(lab, job, planned)
    if job.state != "finished":
        return _ended(lab, job, planned)
    await anyio.to_thread.run_sync(verdicts.settle, lab)
    judged = await anyio.to_thread.run_sync(judging.judge_job, lab, job)
    found = await illustrated(lab, job, judged, verdicts.outcome(lab, job, judged))
    data = {**found.data, "deduplicated": at.state == "known"}
    return replace(found, findings=(*found.findings, *_other_version(planned)), data=data)


async def _waited(lab: Lab, job: Job, seconds: float, progress: Progress) -> Job:
    until = anyio.current_time() + _START_SECONDS
    job = await lab.evals.wait(job.id, seconds, progress)
    while job.state in LIVE and not job.progress.get("evaluation") and anyio.current_time() < until:
        job = await lab.evals.wait(job.id, 0.5, progress)
    return job


def _running(lab: Lab, job: Job, planned: Planned) -> Outcome:
    spec = lab.evals.spec(job)
    at = job.progress.get("evaluation") or "not listed yet"
    return Outcome(
        "running",
        f"Evaluation {job.id} runs on the platform ({at}): {job.progress.get('completed', 0)} of "
        f"{count(spec.planned, 'rollout')} finished.",
        _other_version(planned),
        data=verdicts.eval_data(spec, job, None, None),
        next=(
            Next("watch_run", "follow it", {"id": job.id}),
            Next("run_eval", "the same call waits for it again"),
            Next("control_run", "end it early", {"id": job.id, "action": "stop"}),
        ),
    )


def _ended(lab: Lab, job: Job, planned: Planned) -> Outcome:
    """A refused start is an error of this call; what ended badly on the platform is no verdict, and no low score."""
    failure = job.progress.get("failure")
    if failure and not job.progress.get("evaluation"):
        raise PrimeError(str(failure["message"]), fix=str(failure["fix"]), code=str(failure["code"]))
    reason = str(job.progress.get("reason") or "no reason was recorded")
    over = job.progress.get("ended") in platform.OVER
    again = "starts a new one" if over else "attaches to the same evaluation again, and starts no other"
    found = Finding(
        f"eval-{job.state}", "blocker", f"the hosted evaluation {job.id} did not finish: {reason}",
        f"Mend the cause if the message names one; the same run_eval call {again}.",
    )  # fmt: skip
    return Outcome(
        "inconclusive",
        f"Evaluation {job.id} {job.state}: {reason}.",
        (found, *_other_version(planned)),
        verdicts.eval_data(lab.evals.spec(job), job, None, None),
        (Next("run_eval", again), Next("read_eval", "what finished before that", {"eval": job.id})),
        facts=Facts(proves=False),
    )


def _other_version(planned: Planned) -> tuple[Finding, ...]:
    subject = planned.subject
    if subject.asked in (None, subject.version):
        return ()
    return (
        Finding(
            "hosted-latest-only", "warning",
            f"{subject.ref}@{subject.asked} was named, and {subject.version} runs: hosted evaluations run the latest",
            f"Name {subject.pinned}, or pull the other version and evaluate it on this machine.",
        ),
    )  # fmt: skip


async def stop(lab: Lab, job: Job) -> Job:
    """End a hosted evaluation, also one whose supervisor is gone while the platform goes on. Raises LabError."""
    id = job.progress.get("evaluation")
    if job.state in LIVE or not id or job.progress.get("ended"):
        return await lab.evals.stop(job.id)
    await lab.prime.eval_stop(str(id))
    lab.ledger.update_job(
        job.id, state="stopped", progress={**job.progress, "ended": "CANCELLED", "reason": "it was stopped"}
    )
    return lab.evals.get(job.id)
