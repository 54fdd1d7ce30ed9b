"""The evidence of a finished evaluation: its data and conditions, recorded exactly once with the verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import prime_lab_mcp
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import rounded
from prime_lab_mcp.lab.evals.measured import live_estimate
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.verdict import EvaluationVerdict, judge_job
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS, HOSTED
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job
from prime_lab_mcp.lab.state.outcome import Facts

_TROUBLE = ("request_errors", "capped", "rate_limited", "rollout_errors", "half_written", "last_error")


def record_verdict(lab: Lab, job: Job) -> list[int]:
    """Judge a finished job and record its verdict as evidence; return the ids of the new rows.

    One transaction records the evidence and marks the job as judged. So a crash loses nothing, and two processes never
    record the same job twice.
    """
    return _record(lab, job, judge_job(lab, job, anew=True))


def evidence_facts(spec: EvalSpec, job: Job) -> Facts:
    """Return the conditions under which a job ran, which its evidence states: model, sampling, harness and others."""
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
        unreported={"endpoint_named_by": spec.endpoint.named_by, "evaluated_at": job.at},
    )


def _toolchain(spec: EvalSpec, job: Job) -> dict[str, Any]:
    """Return the versions of the programs that ran the evaluation.

    The platform does not state its verifiers version, so a hosted evaluation has the version of `prime` instead.
    """
    driven: dict[str, Any] = {"verifiers": spec.verifiers, DISTRIBUTIONS: dict(spec.distributions)}
    if spec.hosted is not None:
        driven = {"prime": job.progress.get("prime"), HOSTED: spec.hosted}
    return {**driven, "prime_lab_mcp": prime_lab_mcp.__version__}


def eval_data(spec: EvalSpec, job: Job, verdict: EvaluationVerdict | None, path: str | None) -> dict[str, Any]:
    """Return the `data` of a run_eval result."""
    progress = job.progress
    d = verdict.distribution if verdict is not None else None
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
        data["estimate"] = live_estimate(spec, job, time.time())
    if d is not None:
        data["pass_rate"] = {"threshold": d.pass_threshold, "share": rounded(d.pass_rate)}
        data["perfect_rate"] = rounded(d.perfect_rate)
        data["distribution"] = d.as_json()
        data["mean_of_attainable"] = rounded(d.mean)
    if isinstance(data["mean_reward"], float):
        data["mean_reward"] = round(data["mean_reward"], 4)
    return data


def _record(lab: Lab, job: Job, verdict: EvaluationVerdict) -> list[int]:
    try:
        spec = EvaluationJobs(lab).spec(job)
    except LabError:
        spec = None
    if spec is None:
        return lab.ledger.judge(job.id, ())  # a newer version of the server wrote the job, so it cannot be judged here
    return lab.ledger.judge(
        job.id, [_evidence(t, job, spec, verdict) for t in ("run_eval", "check_reward_distribution")]
    )


def _evidence(tool: str, job: Job, spec: EvalSpec, verdict: EvaluationVerdict) -> Evidence:
    facts = evidence_facts(spec, job)
    path = job.progress.get("results")
    data = eval_data(spec, job, verdict, str(path) if path else None) if tool == "run_eval" else verdict.data
    return Evidence(
        tool=tool,
        status=verdict.status,
        workspace=job.workspace,
        environment=job.environment,
        source=job.source,
        content=job.content,
        arguments={
            "id": job.id,
            "model": spec.model,
            "num_examples": spec.num_examples,
            "rollouts": spec.rollouts,
            "seed": spec.seed,
        },
        platform=job.platform,
        model=facts.model,
        endpoint_host=facts.endpoint_host,
        sampling=facts.sampling,
        harness=facts.harness,
        runtime=facts.runtime,
        env_args=facts.env_args,
        toolchain=facts.toolchain,
        findings=[f.as_json() | {"rows": []} for f in verdict.findings],
        data={**data, **facts.unreported},
        results_sha256=facts.results_sha256,
        at=time.time(),
    )


def _errors(progress: Mapping[str, Any]) -> int:
    return int(progress.get("errors") or 0)
