"""What a finished evaluation proves, told and recorded exactly once."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import prime_lab_mcp
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals import failures
from prime_lab_mcp.lab.evals.judging import Judged, judge_job
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.records import Evidence, Job
from prime_lab_mcp.lab.report import Facts, Outcome
from prime_lab_mcp.lab.text import count, rounded

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab

_TROUBLE = ("request_errors", "capped", "rate_limited", "rollout_errors", "half_written", "last_error")


def settle(lab: Lab) -> list[int]:
    """Judge and record every finished job of this workspace that was not; returns ids of the new evidence.

    Recording and marking happen in one transaction, so a crash loses nothing and two processes never both record.
    """
    recorded: list[int] = []
    for job in lab.ledger.jobs(lab.key, state="finished"):
        if not job.judged:
            recorded += _record(lab, job, judge_job(lab, job, anew=True))
    return recorded


def facts(spec: EvalSpec, job: Job) -> Facts:
    """What the verdict on a job rests on."""
    return Facts(
        model=spec.model,
        endpoint_host=spec.endpoint.host,
        sampling=spec.sampling,
        harness=spec.harness_name,
        runtime=spec.runtime if spec.api == "v1" and spec.hosted is None else None,
        env_args=dict(spec.env_args),
        toolchain=_toolchain(spec, job),
        results_sha256=job.progress.get("results_sha256"),
        touches_platform=job.platform is not None,
    )


def _toolchain(spec: EvalSpec, job: Job) -> dict[str, Any]:
    """What it ran with here; which verifiers the platform has is not known."""
    driven = {"verifiers": spec.verifiers} if spec.hosted is None else {"prime": job.progress.get("prime")}
    return {**driven, "prime_lab_mcp": prime_lab_mcp.__version__}


def summary_of(spec: EvalSpec, judged: Judged) -> str:
    """One sentence on a finished evaluation."""
    d = judged.distribution
    if d is None or d.mean is None:
        why = [judged.findings[0], *(f for f in judged.findings[1:] if f.code in failures.CAUSES)][:2]
        told = "; ".join(f.message for f in why)
        return f"The evaluation of {spec.environment} with {spec.model} says nothing: {told}."
    usable = d.usable_groups
    groups = f", {usable.share:.0%} of groups of {usable.group_size} usable" if usable.share is not None else ""
    return (
        f"{spec.environment} with {spec.model}: mean reward {d.mean:.2f} of attainable over {count(d.tasks, 'task')} x "
        f"{spec.rollouts}{groups}; {judged.status}."
    )


def eval_data(spec: EvalSpec, job: Job, judged: Judged | None, path: str | None) -> dict[str, Any]:
    """Result data of run_eval (DESIGN)."""
    progress = job.progress
    d = judged.distribution if judged is not None else None
    data: dict[str, Any] = {
        "id": job.id,
        "state": job.state,
        "model": spec.model,
        "tasks": d.tasks if d else spec.planned_tasks,
        "rollouts": spec.rollouts,
        "planned": spec.planned,
        "completed": (d.rollouts - d.errors) if d else int(progress.get("completed") or 0) - _errors(progress),
        "errors": d.errors if d else _errors(progress),
        "mean_reward": d.mean * d.attainable if d and d.mean is not None else progress.get("mean_reward"),
        "tokens": {name: progress.get(f"{name}_tokens", 0) for name in ("prompt", "completion")},
        "harness": spec.harness_name,
        "order": spec.order,
        "sampling": spec.sampling,
        "results_path": path,
    }
    if spec.hosted is not None:
        data |= {k: progress.get(k) for k in ("hosted", "evaluation", "url", "platform_status")}
    data |= {name: progress[name] for name in _TROUBLE if progress.get(name)}
    if "cost" in progress:
        data["cost"] = round(float(progress["cost"]), 4)
    if progress.get("reason"):
        data["reason"] = progress["reason"]
    if progress.get("rescored"):
        data["rescored"] = progress["rescored"]
    else:
        data["estimate"] = spec.estimate
    if d is not None:
        data["pass_rate"] = {"threshold": d.pass_threshold, "share": rounded(d.pass_rate)}
        data["perfect_rate"] = rounded(d.perfect_rate)
        data["distribution"] = d.as_json()
    if isinstance(data["mean_reward"], float):
        data["mean_reward"] = round(data["mean_reward"], 4)
    return data


def outcome(lab: Lab, job: Job, judged: Judged) -> Outcome:
    """A finished evaluation as run_eval reports it."""
    from prime_lab_mcp.lab.distribution.decide import next_calls

    spec = lab.evals.spec(job)
    found = lab.evals.files(job.id).results()
    following = next_calls(judged.distribution, spec.environment, job.id) if judged.distribution is not None else ()
    return Outcome(
        judged.status,
        summary_of(spec, judged),
        judged.findings,
        eval_data(spec, job, judged, str(found) if found else None),
        following,
        facts=dataclasses.replace(facts(spec, job), proves=False),
    )


def _record(lab: Lab, job: Job, judged: Judged) -> list[int]:
    try:
        spec = lab.evals.spec(job)
    except LabError:
        spec = None
    if spec is None:
        return lab.ledger.judge(job.id, ())  # a newer version wrote it: nothing here can say what it proves
    return lab.ledger.judge(
        job.id, [_evidence(t, job, spec, judged) for t in ("run_eval", "check_reward_distribution")]
    )


def _evidence(tool: str, job: Job, spec: EvalSpec, judged: Judged) -> Evidence:
    rests_on = facts(spec, job)
    path = job.progress.get("results")
    data = eval_data(spec, job, judged, str(path) if path else None) if tool == "run_eval" else judged.data
    return Evidence(
        tool=tool,
        status=judged.status,
        workspace=job.workspace,
        environment=job.environment,
        source=job.source,
        content=job.content,
        arguments={
            "id": job.id, "model": spec.model, "num_examples": spec.num_examples, "rollouts": spec.rollouts,
            "seed": spec.seed,
        },
        platform=job.platform,
        model=rests_on.model,
        endpoint_host=rests_on.endpoint_host,
        sampling=rests_on.sampling,
        harness=rests_on.harness,
        runtime=rests_on.runtime,
        env_args=rests_on.env_args,
        toolchain=rests_on.toolchain,
        findings=[f.as_json() | {"rows": []} for f in judged.findings],
        data=data,
        results_sha256=rests_on.results_sha256,
        at=time.time(),
    )  # fmt: skip


def _errors(progress: Mapping[str, Any]) -> int:
    return int(progress.get("errors") or 0)
